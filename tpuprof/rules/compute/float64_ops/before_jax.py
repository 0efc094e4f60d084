"""Double precision is on, and NumPy makes float64."""

import jax
import jax.numpy as jnp
import numpy as np

WIDTH, BATCH, STEPS = 256, 512, 60

# [shown]
jax.config.update("jax_enable_x64", True)
# [/shown]

rng = np.random.default_rng(0)
weights = [jnp.asarray(rng.normal(size=shape) * 0.05) for shape in ((WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))]


@jax.jit
def train_step(weights, batch):
    def loss_of(weights):
        return jnp.square(jax.nn.gelu(batch @ weights[0]) @ weights[1]).mean()

    loss, gradients = jax.value_and_grad(loss_of)(weights)
    return [each - 0.01 * gradient for each, gradient in zip(weights, gradients, strict=True)], loss


for _ in range(STEPS):
    weights, loss = train_step(weights, rng.normal(size=(BATCH, WIDTH)))

print("result", float(loss))
