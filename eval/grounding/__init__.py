"""What won each term of a query in an image, shown and counted."""
