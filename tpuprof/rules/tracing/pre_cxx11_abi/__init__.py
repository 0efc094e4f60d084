"""The rule `pre-cxx11-abi`."""
