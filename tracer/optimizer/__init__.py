"""The optimizer: graph in, graph out. Passes, the peak model, splitting, the plan.

It works from the rules in the op records (axes, costs, fusion), never from lists of names, and
knows nothing of jaxlib: what XLA makes of a program is compared by `tracer.compilation.program`.
"""
