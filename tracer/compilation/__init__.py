"""From a call of a compiled function to a program that runs: trace, optimise, lower, check, run."""
