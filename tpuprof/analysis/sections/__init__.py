"""Turns what the model found of a run into sections of the Report, one section per file."""
