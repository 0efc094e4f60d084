"""Two Reports side by side: whether they compare, and what changed beyond noise."""
