"""The model of a run: hosts, devices, steps and where their time went, held as arrays."""
