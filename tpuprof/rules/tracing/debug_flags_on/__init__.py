"""The rule `debug-flags-on`."""
