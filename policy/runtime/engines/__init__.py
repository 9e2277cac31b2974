"""The adapter's doors into running engines, one module an engine, all that differs between releases in the packs.

An engine loads `register` of its module as a plugin in every process. Without a decision in FUSION_POLICY_DECISION (a
file, or JSON) it does nothing, unless FUSION_POLICY_BUILDER says that there should be one: then the rank votes against.
With one, it commits right after the process groups exist and before the model is loaded: `fused` hands the agreed
workspace to the engine, `unfused` is set in the engine's own configuration on every rank, `restart` ends the process.
"""
