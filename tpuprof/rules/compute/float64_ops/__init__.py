"""The rule `float64-ops`."""
