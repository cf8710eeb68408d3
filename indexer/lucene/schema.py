"""The fields of a Lucene document."""

# Fields by the names Anserini gives them, and two of ours.
ID, CONTENTS, RAW = "id", "contents", "raw"
GROUNDING, ORIGIN = "grounding", "origin"

# Stands between a term and its impact in the text handed to Lucene; not white space to Java.
DELIMITER = "\x01"
