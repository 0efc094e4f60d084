"""The real TPU compiler before the TPU: trace a training script on the CPU, compile its step for a TPU slice.

`targets` and `chips` say what a slice is, `script` runs the training script and takes its step graphs,
`compiler` compiles them in processes of their own, `schedule` turns the compiler's schedule into predicted
time, `memory` and `collectives` read the compiled program, `predicted_trace` writes it as a trace.
Only `intercept`, `dry_tensors` and `worker` import torch, torch_xla or jax, in processes of their own.
"""
