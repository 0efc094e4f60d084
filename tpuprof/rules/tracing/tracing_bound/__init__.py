"""The rule `tracing-bound`."""
