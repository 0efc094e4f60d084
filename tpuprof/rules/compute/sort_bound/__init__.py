"""The rule `sort-bound`."""
