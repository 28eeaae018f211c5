"""What the command line does beyond StableHLO modules: functions of scripts, reports, a doctor."""

from tracer.command.doctor import doctor
from tracer.command.scripts import (
    check_arguments,
    is_script,
    load_function,
    parse_type,
    sample_arguments,
)

__all__ = [
    "check_arguments",
    "doctor",
    "is_script",
    "load_function",
    "parse_type",
    "sample_arguments",
]
