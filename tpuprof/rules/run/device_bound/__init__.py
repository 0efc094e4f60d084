"""The rule `device-bound`."""
