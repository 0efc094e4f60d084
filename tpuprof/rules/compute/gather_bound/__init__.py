"""The rule `gather-bound`."""
