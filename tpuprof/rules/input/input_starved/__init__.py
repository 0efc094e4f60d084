"""The rule `input-starved`."""
