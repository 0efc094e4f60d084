"""The rule `recomputed-activations`."""
