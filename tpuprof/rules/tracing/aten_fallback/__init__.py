"""The rule `aten-fallback`."""
