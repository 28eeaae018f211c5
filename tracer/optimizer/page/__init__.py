"""The page of a plan: memory over the schedule, what is alive in it, and why; one HTML file."""

from tracer.optimizer.page.live_ranges import LiveRange, LiveRanges, live_ranges
from tracer.optimizer.page.page import page_of

__all__ = ["LiveRange", "LiveRanges", "live_ranges", "page_of"]
