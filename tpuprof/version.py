"""The version of tpuprof, which the package is built with too."""

VERSION = "0.1.0"
