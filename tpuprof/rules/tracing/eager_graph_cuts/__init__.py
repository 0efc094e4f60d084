"""The rule `eager-graph-cuts`."""
