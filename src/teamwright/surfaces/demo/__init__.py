"""`teamwright demo`: a team mends a small shop before your eyes. With `--kill` it is killed half-way, and goes on."""
