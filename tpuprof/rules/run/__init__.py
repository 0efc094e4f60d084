"""Rules of the category `run`."""
