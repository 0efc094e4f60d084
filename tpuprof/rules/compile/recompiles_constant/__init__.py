"""The rule `recompiles-constant`."""
