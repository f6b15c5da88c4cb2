"""Calls that run on a cluster's nodes: Dask connects the machines, and each node has a pool of killable workers.

addresses      what `--cluster` accepts (in `pipeline.base`, for every command's `--help`)
node           runs on a node, of equal versions: mailboxes, each with a worker pool that keeps each call's limits
connection     the client's side of Dask: membership, heartbeats, requests with a time limit
dispatcher     which call runs where: batches, windows, repeats after a loss; knows no Dask
cluster        the usable nodes, and all of it as `Workers`, whose pools are `concurrent.futures.Executor`s
"""
