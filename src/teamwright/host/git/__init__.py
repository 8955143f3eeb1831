PLACE = (".teamwright", "worktrees")  # of worktrees, below the top of a repository
LANDING = ".landing-"  # how trees of the landing queue are called there: they are nobody's worktree
