"""Compile StableHLO with XLA, and run the result."""
