"""tpuprof: says what holds a PyTorch/XLA training run on TPU back, with the evidence."""
