"""Rules of the category `input`."""
