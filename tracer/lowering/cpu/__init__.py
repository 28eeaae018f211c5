"""What only CPUs need: the heap, library threads, vector width."""
