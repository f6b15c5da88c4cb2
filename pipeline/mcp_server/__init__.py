"""The Model Context Protocol server: the project's checks as tools for a coding agent."""
