"""Readers that turn profiler files into columns: one module a format."""
