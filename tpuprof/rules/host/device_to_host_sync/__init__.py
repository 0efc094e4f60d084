"""The rule `device-to-host-sync`."""
