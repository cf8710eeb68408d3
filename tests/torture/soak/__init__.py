"""A server under load for hours, while its index is rebuilt, workers die and clients hang up."""
