"""What is collected here: the files for eight devices only in a process that has eight."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("TRACER_CPU_DEVICES") == "8" else ["*on_eight_devices.py"]
