"""Goodput: where all wall time of a job went since its first start, over crashes, preemptions and restarts."""
