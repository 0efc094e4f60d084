"""The `tpuprof` command: one module a subcommand."""

import gc

# A command builds its tables once and ends: with Python's own threshold (700) it would look for garbage among them
# hundreds of times and find none.
gc.set_threshold(50_000, 20, 20)
