"""Rules: each turns signals into one finding with evidence, a fix and a price. One rule, one file."""
