"""The command that starts the server."""
