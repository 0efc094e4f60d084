"""From a run to its Report: reads, models, judges, and keeps the answer."""
