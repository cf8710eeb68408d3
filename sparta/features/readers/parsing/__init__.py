"""What several readers of foreign feature formats share."""
