"""TPP-Embedding: finding histories by their descriptions (Liu and Quan 2024)."""
