"""The rule `exposed-parameter-gather`."""
