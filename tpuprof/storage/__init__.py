"""Paths that are URLs: what lies in a bucket or behind a web server is read as if it were here."""
