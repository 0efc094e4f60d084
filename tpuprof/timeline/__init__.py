"""Lines of a timeline, at any zoom."""
