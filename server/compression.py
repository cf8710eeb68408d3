"""Which answers are compressed."""

from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES

# Photos are compressed already.
NOT_COMPRESSED = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "image/*", "application/octet-stream")
LEAST_COMPRESSED = 1000  # bytes
COMPRESSION = 4  # of 9: half the time of the default for 5 % more bytes
