"""The REST service and the web page."""
