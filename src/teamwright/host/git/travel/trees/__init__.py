"""Trees of agents: what has changed in one, and how it is stored."""
