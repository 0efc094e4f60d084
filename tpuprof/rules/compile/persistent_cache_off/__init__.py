"""The rule `persistent-cache-off`."""
