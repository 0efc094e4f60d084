"""The rule `exposed-collectives`."""
