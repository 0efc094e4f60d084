"""What leaves the machine: ticket bundles, cut down and redacted."""
