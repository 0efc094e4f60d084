"""Custom calls by which the TPU compiler names, groups, splits or reserves values. They compute nothing."""

BOOKKEEPING = frozenset({
    "AllocateBuffer", "AssumeGatherIndicesInBound", "ConcatBitcast", "Noop", "PrepareAsyncCallDone",
    "PrepareAsyncCallStart", "Sharding", "X64Combine", "X64SplitHigh", "X64SplitLow",
})  # fmt: skip
