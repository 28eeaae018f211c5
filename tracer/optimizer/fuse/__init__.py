"""Fusion that XLA:CPU does not do, one pass per strategy.

The strategies are those of Snider & Liang, "Operator Fusion in XLA: Analysis and Evaluation"
(2023), section III-B. docs/fusion.md has what each one gains here, and which of them XLA does.
"""
