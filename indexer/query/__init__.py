"""What a user asks: words to search, words a photo must have, and words it must not have."""
