"""Words and terms: reading queries, which images have a term, explanations, suggestions."""
