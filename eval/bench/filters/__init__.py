"""What filters cost: searches among some of the images, and the first use of a filter."""
