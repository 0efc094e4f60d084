"""The rule `unused-gradients`."""
