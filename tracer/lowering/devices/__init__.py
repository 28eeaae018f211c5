"""Devices, meshes and processes: what is there, and how arrays are placed."""
