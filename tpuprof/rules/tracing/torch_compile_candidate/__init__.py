"""The rule `torch-compile-candidate`."""
