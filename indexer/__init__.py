"""From features to an index that answers queries.

Imports go down this list only; what is on one line does not import each other (checked by
`make lint`):

- `commands`
- `build`: the offline job, and its unfinished state
- `offsets` (first pass), `index_writer` (postings → index folder), `search`
- `columns`, `dense`, `impacts` (term scores → postings)
- `lucene`, `encoding` (feature stores and models → term scores)
- `postings`, `pruning`
- `manifest`, `grounding`, `quantisation`, `settings`
"""
