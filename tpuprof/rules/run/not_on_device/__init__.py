"""The rule `no-graph-cut`."""
