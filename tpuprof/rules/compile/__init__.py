"""Rules of the category `compile`."""
