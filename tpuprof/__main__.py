"""Runs the command line as `python -m tpuprof`."""

from tpuprof.cli.main import main

main()
