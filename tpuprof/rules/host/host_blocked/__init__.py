"""The rule `host-blocked`."""
