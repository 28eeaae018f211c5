"""Compiled programs in a folder, which a later process finds there (docs/cache.md)."""
