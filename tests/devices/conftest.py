"""What is collected here: files for several devices or processes only where there are such."""

from __future__ import annotations

import os

collect_ignore = [
    *([] if os.environ.get("TRACER_CPU_DEVICES") == "8" else ["on_eight_devices.py"]),
    *([] if "TRACER_TEST_PROCESS" in os.environ else ["on_several_processes.py"]),
]
