"""The agent: proposer, guardian, refiner, their tools, and compiled programs as files."""
