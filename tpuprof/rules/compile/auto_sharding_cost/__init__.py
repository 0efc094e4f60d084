"""The rule `auto-sharding-cost`."""
