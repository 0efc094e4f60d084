"""A Python loop over many small layers: each is traced in every step."""

from cells import train

from tpuprof.demo.decoder import one_after_another

train(one_after_another)
