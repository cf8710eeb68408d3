"""Results of the query latency benchmark as files, tables and plots."""
