"""Rules of the category `host`."""
