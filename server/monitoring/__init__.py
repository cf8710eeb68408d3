"""What operators look at: metrics, logs of requests and slow queries, traces."""
