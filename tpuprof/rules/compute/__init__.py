"""Rules of the category `compute`."""
