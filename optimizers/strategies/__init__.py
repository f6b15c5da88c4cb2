"""Selection strategies: which solved tasks an iteration shows as demonstrations, and in what order.

`base` has the contract; `levels` and `cycles` are what several strategies share; every other module is a strategy;
`registry` has their names.
"""
