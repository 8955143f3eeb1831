"""`teamwright demo`: a team mends a small shop before your eyes. With `--kill` it is killed half-way, and goes on."""

from teamwright.surfaces.demo.run import play

__all__ = ["play"]
