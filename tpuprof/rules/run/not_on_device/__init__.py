"""The rule `not-on-device`."""
