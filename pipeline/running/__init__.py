"""Running an agent: LM sessions, recorded optimizations, and sampling until tasks are solved."""
