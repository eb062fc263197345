"""Examples: rows of histories or embeddings with the labels that they belong to."""
