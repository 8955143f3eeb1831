"""Clones that agents of a worker work in."""
