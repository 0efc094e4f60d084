"""The dashboard's pages, one a file; `registry` lists them."""
