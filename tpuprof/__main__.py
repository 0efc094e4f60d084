"""Runs the command line as `python -m tpuprof`."""

from tpuprof.cli.entry import main

main()
