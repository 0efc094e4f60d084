"""Hooks in one line for training libraries: each marks the library's own steps as `tpuprof.step` does.

Each module imports its library, so that importing tpuprof imports none.
"""
