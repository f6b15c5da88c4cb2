"""Selection strategies: which solved tasks an iteration shows as demonstrations, and in what order.

`base` has the contract; Several strategies share `levels` and `cycles`; every other module is a strategy; `registry`
has their names.
"""
