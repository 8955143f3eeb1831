"""What an agent can be: the kinds that every session knows."""

BUILT_IN_KINDS = ("general-purpose", "explore", "plan", "verification", "bash", "guide")
