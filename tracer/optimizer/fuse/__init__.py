"""Fusion that XLA:CPU does not do by itself, each strategy a pass of its own.

The strategies are those of Snider & Liang, "Operator Fusion in XLA: Analysis and Evaluation"
(2023), section III-B; docs/fusion.md says what each one buys here, by measurement, and which of
them XLA does already.
"""
