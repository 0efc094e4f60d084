"""Proves a fix: runs the program before and after it in turn, until the saving is known or a budget ends."""
