"""The rule `async-flags-missing`."""
