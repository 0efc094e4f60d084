"""The rule `persistent-cache-ineffective`."""
