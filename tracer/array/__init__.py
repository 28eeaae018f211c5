"""The array that users hold, and what happens when a function is applied to it.

`array.py` has the bare Array, `recording.py` what a trace writes into, `dispatch.py` the calls of
op records, `trace.py` the way from a Python function to a Graph. NumPy's functions are in `numpy/`,
which installs the operators and methods.
"""
