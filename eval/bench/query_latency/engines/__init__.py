"""The timed engines, built from the same collection and searched with the same queries."""
