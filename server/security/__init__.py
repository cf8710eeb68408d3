"""Who may do what: keys, scopes, limits, hosts and TLS."""
