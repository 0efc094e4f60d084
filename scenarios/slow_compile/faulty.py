"""A Python loop over many layers: the first start has to wait until each of them is compiled."""

from starting import start

from tpuprof.demo.decoder import one_after_another

start(one_after_another)
