"""The rule `straggler-host`."""
