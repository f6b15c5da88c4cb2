"""Text to verdict: checks, simulation, comparison with the reference."""
