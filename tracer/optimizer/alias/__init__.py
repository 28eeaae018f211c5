"""Buffer reuse: donated arguments and updates in place."""
