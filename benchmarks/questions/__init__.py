"""Fifty questions about captures, whose answers are known, for a client of `tpuprof mcp`."""
