"""The rule `recompiles-other`."""
