"""Embeddings of two versions: what a search finds before the update, without backfilling, and after it."""
