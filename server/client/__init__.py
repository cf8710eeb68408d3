"""Python clients of a server, which of the server's modules load `server.schemas` alone."""
