"""FSDPv2 shards every parameter of a model that would fit whole: each is gathered before every use."""

from sharded import train_head

train_head(shard_parameters=True)
