"""A Ray cluster of two nodes on this machine: real processes, which can be killed."""

from __future__ import annotations

import os
from contextlib import contextmanager

#: Of a node: one core, little shared memory.
NODE = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 100 << 20}


@contextmanager
def two_nodes():
    """Yield the cluster: `.address` to connect to, `.add_node(**NODE)`, `.remove_node(node)`."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={**NODE, "include_dashboard": False},
        shutdown_at_exit=True,
    )
    try:
        cluster.add_node(**NODE)
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.shutdown()
