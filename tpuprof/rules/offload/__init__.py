"""Rules of the category `offload`."""
