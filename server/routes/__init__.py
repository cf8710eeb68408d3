"""The endpoints of the REST interface, one module per resource."""
