"""The text of a request: its question, and the solved examples that it shows."""
