"""The rule `truncated-trace`."""
