"""The rule `short-steps`."""
