"""Rules of the category `collective`."""
