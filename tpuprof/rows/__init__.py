"""Turns what the model found of a run into rows of the Report, one section a file."""
