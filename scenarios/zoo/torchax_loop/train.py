import time

import jax
import torch
import torch.nn as nn
import torchax
from torchax import interop

torch.manual_seed(0)
env = torchax.default_env()
with env:
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).to("jax")
    weights = dict(model.named_parameters())
    x = torch.randn(256, 512).to("jax")


def loss_fn(weights, x):
    out = torch.func.functional_call(model, weights, (x,))
    return ((out - x) ** 2).mean()


def update(weights, x):
    loss, grads = interop.jax_value_and_grad(loss_fn)(weights, x)
    return {name: weights[name] - 0.1 * grads[name] for name in weights}, loss


step_fn = interop.jax_jit(update)
marks = []
with env:
    for step in range(40):
        if step == 15:
            jax.profiler.start_trace("profile")
        if step == 23:
            jax.block_until_ready(loss.jax())
            jax.profiler.stop_trace()
        weights, loss = step_fn(weights, x)
        marks.append(time.perf_counter())
    jax.block_until_ready(loss.jax())
    print("loss", loss.item())
print(f"{(time.perf_counter() - marks[24]) / 15 * 1e3:.2f} ms per step")
