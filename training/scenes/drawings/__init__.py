"""What a scene may hold, drawn with a brush."""
