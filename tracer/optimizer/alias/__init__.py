"""Memory that is shared: donated arguments, updates in place."""
