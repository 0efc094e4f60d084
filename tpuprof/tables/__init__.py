"""A run as tables with a documented schema: for export, for SQL, and for the public Python API."""
