"""The collections and queries of the query latency benchmark."""
