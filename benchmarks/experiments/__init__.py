"""The published experiments on this product, beside what a user would pick instead.

`python -m benchmarks.experiments --help`; docs/experiments.md.
"""
