"""The parameters are replicated, the batch stays sharded."""

from sharded import train_head

train_head(shard_parameters=False)
