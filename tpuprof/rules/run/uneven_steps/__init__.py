"""The rule `uneven-steps`."""
