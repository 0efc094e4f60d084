"""The rule `hbm-pressure`."""
