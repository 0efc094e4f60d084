"""The rule `debug-tool-on`."""
