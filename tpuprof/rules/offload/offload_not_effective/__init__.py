"""The rule `offload-not-effective`."""
