"""The rule `slow-compile`."""
