"""The rule `float32-matmul`."""
