"""What a compiled program says about its memory: bytes, copies, shared buffers."""
