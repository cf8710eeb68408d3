"""Query by image, measured by how well captions agree."""
