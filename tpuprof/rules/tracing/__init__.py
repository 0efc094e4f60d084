"""Rules of the category `tracing`."""
