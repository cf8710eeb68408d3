"""A server under load: requests a second, latencies, and the parts of a request."""
