"""What the query latency benchmark measured, as files, tables and plots."""
