"""The small proposer: a random walk over typed actions, weighted by its examples."""
