"""A request's text: what it asks, and the solved examples that it shows."""
