"""Everything that can be loaded and asked to encode: features, tokenizer, models."""
