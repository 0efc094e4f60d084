"""The rule `barrier-skew`."""
