"""Rewrites of programs that keep their meaning, and the search for the cheapest program that they lead to.

- shared: programs without Copies, and how one node is replaced
- rules: the rewrites
- associativity: proofs that a fold may be split
- optimizing: every program within reach, the cheapest first

Rewrites assume that functions are pure: the same element always gives the same value.
"""
