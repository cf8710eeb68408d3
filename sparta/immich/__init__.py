"""Photos of an immich library, read through its REST interface."""
