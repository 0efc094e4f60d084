"""A small simulator of the training step: fitted to a trace, then replayed with a cause removed."""
