"""An index in Milvus: pushed from its folder, followed, and searched."""
