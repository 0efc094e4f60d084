"""Watches training all the time: a ledger of every step, anomalies as they happen, captures of those, and exporters."""
