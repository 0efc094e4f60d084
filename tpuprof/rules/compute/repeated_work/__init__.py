"""The rule `repeated-work`."""
