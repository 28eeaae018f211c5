"""Loops: splitting large values into slices; unrolling, fusing and interchanging loops."""
