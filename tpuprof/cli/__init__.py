"""The `tpuprof` command: one module a subcommand."""
