"""What is collected here: the files for several devices only in a process that has as many."""

from __future__ import annotations

import os

_FILES = {
    "2": ["on_two_devices.py"],
    "8": ["on_eight_devices.py", "predictions_on_eight_devices.py"],
}
collect_ignore = [
    file
    for count, files in _FILES.items()
    if os.environ.get("TRACER_CPU_DEVICES") != count
    for file in files
]
