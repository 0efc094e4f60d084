"""The dashboard: a Plotly Dash app that renders Reports and computes no metric of its own."""
