"""What is collected here: the files for eight devices only in a process that has eight."""

from __future__ import annotations

import os

_HAS_EIGHT = os.environ.get("TRACER_CPU_DEVICES") == "8"
collect_ignore_glob = [] if _HAS_EIGHT else ["*on_eight_devices.py"]
