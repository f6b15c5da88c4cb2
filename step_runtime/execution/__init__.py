"""How a function written for one element is applied to many."""
