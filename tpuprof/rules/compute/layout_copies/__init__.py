"""The rule `layout-copies`."""
