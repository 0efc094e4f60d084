"""Searches for faster, smaller or quicker to compile variants of a training step, with the real TPU compiler."""
