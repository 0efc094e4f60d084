"""The rule `scan-cache-off`."""
