"""Writes what tpuprof found in the formats of other tools: one module a format."""
