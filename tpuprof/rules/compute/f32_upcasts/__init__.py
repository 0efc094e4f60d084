"""The rule `f32-upcasts`."""
