"""What only CPUs need: the heap, threads of libraries, the width of vectors."""
