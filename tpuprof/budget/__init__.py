"""Checks a run against the limits of a `tpuprof.toml`."""
