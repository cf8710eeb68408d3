"""Changing over to a rebuilt index while requests are answered."""
