"""Devices, meshes and processes: what is there, and how arrays lie on it."""
