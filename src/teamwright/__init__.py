"""Teams of coding agents, on any model."""

__version__ = "0.1.0.dev0"
