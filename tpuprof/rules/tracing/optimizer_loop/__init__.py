"""The rule `optimizer-loop`."""
