"""Decide which kernel fusions a launch of a language-model server may use, and say why."""
