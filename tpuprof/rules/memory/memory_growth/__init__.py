"""The rule `memory-growth`."""
