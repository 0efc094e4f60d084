"""Renderers of a Report and the schema they share."""
