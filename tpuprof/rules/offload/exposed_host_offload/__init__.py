"""The rule `exposed-host-offload`."""
