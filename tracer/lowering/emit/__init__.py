"""From graphs to StableHLO text: one function for each op of the language."""
