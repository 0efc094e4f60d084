"""The rule `memory-bandwidth-bound`."""
