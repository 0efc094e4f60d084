"""The rule `padded-dimensions`."""
