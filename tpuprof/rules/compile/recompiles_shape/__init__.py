"""The rule `recompiles-shape`."""
