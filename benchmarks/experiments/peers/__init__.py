"""The systems that are compared: each module runs in the interpreter that has its library.

Only NumPy is shared: nothing here imports tracer, but `ours`.
"""
