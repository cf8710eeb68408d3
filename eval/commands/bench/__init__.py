"""The `sparta bench` commands."""
