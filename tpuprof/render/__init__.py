"""Renderers of a Report: text, HTML, Markdown, and what they share."""
