"""What instrumentation needs of a framework other than torch_xla, in the shape of torch_xla's extension module."""
