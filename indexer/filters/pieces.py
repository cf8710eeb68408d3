"""What a byte of a text is, and what a search for a piece of it finds."""

# Of each byte: a sign, a letter or digit, or part of a letter that is not ASCII.
SIGN, LETTER, PART = 0, 1, 2
NOT_FOUND, FOUND, UNDECIDED = 0, 1, 2
