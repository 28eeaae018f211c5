"""What is collected here: the files for eight devices only in a process that has eight."""

from __future__ import annotations

import os

_FOR_EIGHT = ["on_eight_devices.py", "predictions_on_eight_devices.py"]
collect_ignore = [] if os.environ.get("TRACER_CPU_DEVICES") == "8" else _FOR_EIGHT
