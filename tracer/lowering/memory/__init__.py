"""What a compiled program says of its memory: bytes, copies, buffers that are shared."""
