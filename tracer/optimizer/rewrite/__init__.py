"""Rewrites: the same values from another expression."""
