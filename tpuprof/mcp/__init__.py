"""Runs for agents: ten tools of the Model Context Protocol, with small answers that point to their evidence."""
