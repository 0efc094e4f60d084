"""The rule `offload-unneeded`."""
