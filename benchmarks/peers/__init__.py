"""How a careful user of JAX splits the same programs by hand."""
