"""The order in which a program's values are computed."""
