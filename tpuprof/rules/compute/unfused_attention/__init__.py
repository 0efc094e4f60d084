"""The rule `unfused-attention`."""
