"""The rule `graph-breaks`."""
