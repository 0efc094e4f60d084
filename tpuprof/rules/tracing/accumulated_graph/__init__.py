"""The rule `accumulated-graph`."""
