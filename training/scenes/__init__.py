"""The sample corpus: scenes drawn by the project itself, with boxes, facts and captions."""
