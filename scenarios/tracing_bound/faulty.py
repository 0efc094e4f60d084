"""A Python loop over many small matrices: hundreds of ops to trace, hardly any work for the device."""

from adapters import penalty_of, train

train(lambda adapters: sum(penalty_of(adapter) for adapter in adapters))
