"""The rule `frequent-flushes`."""
