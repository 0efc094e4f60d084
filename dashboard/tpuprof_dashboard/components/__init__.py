"""Parts of pages: pure functions from plain data to Dash components."""
