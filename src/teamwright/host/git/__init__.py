PLACE = (".teamwright", "worktrees")  # of worktrees, below the top of a repository
