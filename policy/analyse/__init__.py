"""Exact answers over the whole input space: smallest changes, regions, proofs, differences, checks of a pack."""
