"""Code on its way between machines: bundles of commits, clones for agents, saved trees, and branches that come back."""
