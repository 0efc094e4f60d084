"""Charts: pure functions from a Report to a plotly figure; nothing here imports dash."""
