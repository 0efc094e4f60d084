"""The ledger: every training step of a job in an append-only file that survives a kill, and what reads it."""
