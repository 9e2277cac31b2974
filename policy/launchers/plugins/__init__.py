"""Plug-ins that engines load in their own processes, through the entry points that `fusion_policy` offers.

They are inert unless `FUSION_POLICY_MODE` is advise, enforce or fail. Each node resolves its own configuration, so that
each decides by itself; what a node without a GPU cannot see is left to the workers.
"""
