"""Searching an index that is divided into shards: every shard is asked, the answers are merged."""
