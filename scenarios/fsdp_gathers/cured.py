"""The parameters are replicated, the batch stays sharded."""

from sharded import train_sharded

train_sharded(shard_parameters=False)
