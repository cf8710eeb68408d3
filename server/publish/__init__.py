"""A searchable gallery of plain files: page, photos, and an index searched in the browser."""
