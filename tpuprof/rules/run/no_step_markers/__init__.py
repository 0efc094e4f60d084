"""The rule `no-step-markers`."""
