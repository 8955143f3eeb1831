PLACE = (".teamwright", "worktrees")  # of worktrees, below a repository's top directory
LANDING = ".landing-"  # prefix of the landing queue's trees there, which are no agent's worktrees
