"""Compiling StableHLO with XLA, and running what comes out."""
