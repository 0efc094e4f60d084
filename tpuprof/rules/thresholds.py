"""Every threshold of the rules: a named constant with its unit, the reason for it, and where it comes from."""

from __future__ import annotations

# Share of step time at stake from which a rule fails. Removing less gains no more than runs differ by anyway; it is
# the share from which the verdict names a part (model/verdict_words.py), so rules and verdict agree.
FAILS_FROM_SHARE = 0.10

# Share of the mean step that a replay must gain for the finding to stay failed: half of the above, since the share at
# stake and what a fix gains of it differ where something else then holds the step up.
PRICED_FROM_SHARE = 0.05

# A broad rule's severity counts this much in the ranking (ratio) where a specific finding of at least that much shares
# its saving: it says more of what to do. Measured steps carry the profiler's own time, which no specific rule claims.
# Where none does, the larger saving stands first: metrics of one op each took 2.4 of 3.5 ms per step of JAX, and Python
# beside them, which shares nothing with that, was priced at half of it (measured).
BROAD_RANKS_AT = 0.4

# What any other broad rule's severity counts (ratio): prices are known to a tenth or two, and of two alike the
# specific one says more of what to do. Tracing at 12.8 ms stood before a batch that each of four devices computed, at
# 12.1. A judgement.
BROAD_TIES_AT = 0.85

# What a finding of low confidence is worth in the order of findings (ratio): a cause that may not be one, or may not
# come back, stands behind a sure one that costs half as much. A judgement.
DOUBTED_RANKS_AT = 0.5

# What the part of a price between its ends is worth in the order of findings, beside its lower end (ratio): what is
# sure comes before what may be. In three programs with measured truths the middle of each range put another finding
# first than the one that saved most. A judgement: a third.
BEYOND_RANKS_AT = 1 / 3

# Part of the share at stake below which a price is far from it (ratio): stated beside each other, the two read as a
# contradiction, so the title leaves that share out, and the verdict states the price too. A judgement.
FAR_BELOW = 0.5

# Share of a broad rule's severity from which a specific one of its category comes first where both save the same time
# (ratio): what it names is a cause of what the broad one sees, and its price leaves out what it costs elsewhere. A loop
# with eleven cuts per step took 62 % less time with one; the time in cuts is a third of the step (measured).
SPECIFIC_FROM = 0.2
# The same for a broad rule on the whole run, as uneven steps are (ratio): the specific one may be of any category, so
# it has to explain half. A judgement.
SPECIFIC_OF_RUN_FROM = 0.5

# Share of tracing in a typical step, and how much of it is exposed. The upstream project's own wish is a warning when
# tracing comes near the step time (AI-Hypercomputer/torchprime issue 149).
TRACING_FROM_SHARE = FAILS_FROM_SHARE

# Share of exposed tracing that scan's own retracing must make up for scan's cache to be the thing to fix.
SCAN_RETRACE_FROM_SHARE = FAILS_FROM_SHARE

# Time in samples of a part of the host's time, over the whole capture, from which the part is one and no accident (ms):
# two intervals of the sampler. Eight steps of a millisecond hold one sample.
SAMPLED_FROM_MS = 20.0

# Times a step that a scan's body is traced from which its cache is off (a step): with the cache on it is never.
SCAN_RETRACES_FROM = 0.5

# Layers of the same program from which folding them with scan_layers is worth a finding. Below it, scan itself takes
# the host longer than it saves: as long as tracing six layers and more (measured, rules/tracing/unrolled_layers).
UNROLLED_FROM_LAYERS = 8

# torch_xla up to this version (major, minor) was published with both C++ ABIs; its 2.6 release notes report about
# 20 % better goodput with the C++11 ABI for tracing-bound models.
LAST_WITH_OLD_ABI = (2, 6)
CXX11_ABI_GAIN = 0.20

# Graphs a step from which a step is cut more often than once (graphs). One is the loss, backward pass and optimizer.
GRAPH_CUTS_FROM = 2

# Graph cuts that compiled before training was steady, in sum (s), from which start-up is worth a finding: the time an
# edit-and-run cycle starts to hurt. PyTorch/XLA's own metrics analysis warns of a single compile from 300 s on.
SLOW_COMPILE_FROM_SECONDS = 20.0
# Micro-batches in one program from which its size is worth a finding (batches). Two are usual where nothing is
# accumulated: a discriminator sees real and made examples. Of three, a fix saves at most two thirds. A judgement.
ACCUMULATED_FROM_BATCHES = 4
# Steps over which start-up is spread to compare it with what every step loses (steps): a short fine-tuning run.
STARTUP_SPREAD_OVER_STEPS = 10_000
# torch_xla up to this version (major, minor) cannot load what its persistent cache holds on TPU: pytorch/xla issue
# 9094, reported from April 2025 on and again for 2.9.0. Pull request 9759 proposes a fix; it was open when last seen.
LAST_WITHOUT_CACHE_ON_TPU = (2, 9)
# Share of compiles that a working persistent cache answers (hits over lookups).
CACHE_HITS_FROM_SHARE = 0.5

# Times an op falls back to the host in a step from which it counts (calls per step): below it, it is not in every step.
FALLBACKS_FROM = 0.5

# Share of a copy's own time that is exposed from which offloading does not overlap. Half hidden is what a schedule
# with one layer's compute to hide behind reaches at worst.
OFFLOAD_EXPOSED_SHARE = 0.5

# Peak HBM as a share of capacity. From the first on the next larger batch will not fit and XLA starts to
# rematerialise; below the second, tensors offloaded to the host would fit.
HBM_PRESSURE_FROM_SHARE = 0.90
HBM_TO_SPARE_BELOW_SHARE = 0.70

# Memory that grows from step to step and would be full within so many steps (steps): a short fine-tuning run, as above.
MEMORY_FULL_WITHIN_STEPS = STARTUP_SPREAD_OVER_STEPS
# Share of the steps in which it must not fall to count as growth: buffers that come and go also grow for a while.
GROWS_IN_STEPS_SHARE = 0.8
# Steps below which growth looks like that (steps).
GROWTH_MIN_STEPS = 5

# Share of a program's memory that results take beside inputs whose memory they could have had. A program that donates
# nothing loses up to half, each result beside its input; half of that is no batch or average that is needed anyway.
DONATION_LOST_FROM_SHARE = 0.25
# And as a share of the device's memory, where that is known: below it, a larger batch would not notice. A judgement.
DONATION_LOST_FROM_CAPACITY = 0.01

# Share of device self time, for one family of ops, from which it is worth a finding.
OPS_FROM_SHARE = FAILS_FROM_SHARE

# Model FLOP/s over the chip's peak. Published training runs of decoder models on TPU reach 40 to 60 %.
LOW_MXU_BELOW = 0.30
# Bytes per second over the chip's peak from which memory is what limits.
BANDWIDTH_BOUND_FROM = 0.70

# A run of fewer hosts has nobody to wait for (hosts).
STRAGGLER_MIN_HOSTS = 2

# Excess of the slow steps over typical ones, as a share of all step time.
UNEVEN_FROM_SHARE = FAILS_FROM_SHARE
# Share of a slow step's excess that a part must explain to be its cause: half, so that there is one at most.
UNEVEN_CAUSE_FROM_SHARE = 0.5
# Slow steps with the same cause from which it recurs (steps): once may be chance.
UNEVEN_RECURS_FROM = 2
# Excess of the only slow step of a cause from which it is worth looking at (ms): less is what a busy machine takes from
# any call now and then. Copies of 0.2 ms in one of 20 steps were a finding of a loop that was fine. A judgement.
UNEVEN_ONCE_FROM_MS = 10.0
# Fewer steps than this tell nothing of a rhythm (steps).
UNEVEN_MIN_STEPS = 4

# Graphs handed over and built again without change in every step, with tracing exposed, for torch.compile to help:
# below this share of the step there is nothing to gain.
TORCH_COMPILE_FROM_SHARE = 0.30

# Share of device busy time from which the run is device-bound; the verdict uses the same.
DEVICE_BOUND_FROM_SHARE = 0.90

# Mean step up to which what a call costs is worth a look though a step is few programs (ms): a call of a jitted
# function takes 10 us of an idle CPU and up to 0.1 ms of a busy one, so that of a longer step it is less than a tenth.
SHORT_STEP_UP_TO_MS = 1.0
# Share of such a step that may be the cost of calls and of starting ops from which it is said where the calls alone
# take little (share): it is most of the step then. A judgement.
MOSTLY_SHORT_FROM_SHARE = 0.5
