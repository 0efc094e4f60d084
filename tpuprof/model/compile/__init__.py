"""Compiles: when, of which graph, why, and whether they come again."""
