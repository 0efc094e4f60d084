"""The rule `lost-donation`."""
