"""The rule `eager-dispatch`."""
