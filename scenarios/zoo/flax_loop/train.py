import time

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Net(nnx.Module):
    def __init__(self, rngs):
        self.up = nnx.Linear(512, 1024, rngs=rngs)
        self.down = nnx.Linear(1024, 512, rngs=rngs)

    def __call__(self, x):
        return self.down(nnx.relu(self.up(x)))


net = Net(nnx.Rngs(0))
optimizer = nnx.Optimizer(net, optax.sgd(0.1), wrt=nnx.Param)
x = jax.random.normal(jax.random.key(1), (384, 512))


@nnx.jit
def train_step(net, optimizer, x):
    loss, grads = nnx.value_and_grad(lambda net: jnp.square(net(x) - x).mean())(net)
    optimizer.update(net, grads)
    return loss


marks = []
for step in range(40):
    if step == 15:
        jax.profiler.start_trace("profile")
    if step == 23:
        loss.block_until_ready()
        jax.profiler.stop_trace()
    loss = train_step(net, optimizer, x)
    marks.append(time.perf_counter())
loss.block_until_ready()
print("loss", float(loss))
print(f"{(time.perf_counter() - marks[24]) / 15 * 1e3:.2f} ms per step")
