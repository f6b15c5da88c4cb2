"""Calls that run on a cluster's nodes: Dask decides what runs where, and repeats what a lost node was doing.

node      runs on a node, in its Dask worker process: a pool of killable workers, which keep each call's limits
cluster   the nodes as `Workers`, whose pools are `concurrent.futures.Executor`s; the client's side of Dask
"""
