"""The models: what XLA stores, how long it lives, and the bytes and seconds of a program."""
