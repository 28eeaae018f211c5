"""The models: what XLA stores, how long it lives, how many bytes and seconds a program takes."""
