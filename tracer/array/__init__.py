"""The array that users hold, and what happens when a function is applied to it.

`array.py` is the bare Array, `recording.py` what a trace writes into, `dispatch.py` the doors to
the op records, `trace.py` the way from a Python function to a Graph. NumPy's functions stand in
`numpy/`, which installs the operators and methods.
"""
