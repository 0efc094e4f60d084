"""The rule `eager-mode`."""
