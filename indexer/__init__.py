"""From features to an index that answers queries; docs/architecture.md has the order of imports."""
