"""The rendered scenes: a corpus of drawn images with boxes, facts and captions."""
