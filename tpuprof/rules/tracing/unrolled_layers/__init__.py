"""The rule `unrolled-layers`."""
