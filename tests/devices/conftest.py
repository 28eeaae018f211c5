"""What is collected here: the files for several devices only in a process that has as many."""

from __future__ import annotations

import os

_FILES = {"on_two_devices.py": "2", "*on_eight_devices.py": "8", "eight.py": "8"}
_IS_PROCESS = "TRACER_TEST_PROCESS" in os.environ
collect_ignore = [] if _IS_PROCESS else ["on_several_processes.py"]
collect_ignore_glob = [
    file for file, count in _FILES.items() if os.environ.get("TRACER_CPU_DEVICES") != count
]
