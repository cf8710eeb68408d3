"""The server: REST interface and web page for searching an index."""
