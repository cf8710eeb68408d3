"""The speed from photos to an index, stage by stage, and beside a CLIP."""
