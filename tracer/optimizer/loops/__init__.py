"""Loops: large values computed in slices; loops written out, merged, interchanged."""
