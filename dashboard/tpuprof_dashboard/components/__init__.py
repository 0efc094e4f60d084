"""Parts of a page: pure functions from a Report to Dash components."""
