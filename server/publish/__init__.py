"""A searchable gallery of plain files: the page, the photos, and an index searched in the browser."""
