"""StableHLO modules of others, read into plain records: the way back from `emit/`."""
