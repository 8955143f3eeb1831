"""`teamwright demo`: a team fixes a small demo repository. With `--kill` it is killed half-way and resumed."""
