"""A small decoder-only model and a training run with a planted fault, for `tpuprof demo` and the samples."""
