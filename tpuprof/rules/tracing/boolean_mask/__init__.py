"""The rule `boolean-mask`."""
