"""The rule `while-loop-candidate`."""
