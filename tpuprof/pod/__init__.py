"""Many hosts: each is summarised alone, and the summaries are merged into one report."""
