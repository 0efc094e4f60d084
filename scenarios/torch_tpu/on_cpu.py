"""Runs a TorchTPU script on a CPU plugin: `python on_cpu.py SCRIPT`. The script itself is as it would be on a TPU."""

import runpy
import sys

import torch  # noqa: F401  # before the backend
from torch_tpu import _loader

# What an import does where a TPU is on the PCI bus; a CPU plugin is on none.
_loader._init_device("tpu")
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
