"""Rewrites: the same values from other expressions."""
