"""The strong proposer: interprets the reference and searches for drafts that follow it."""
