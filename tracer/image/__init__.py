"""Resampling of images, as `jax.image`: `resize` and `scale_and_translate`."""

from tracer.image.methods import ResizeMethod
from tracer.image.resizing import resize, scale_and_translate

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]
