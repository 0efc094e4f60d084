"""Writes the training step of a published decoder as StableHLO: no weight is made, and no device is needed.

    python scenarios/published/decoder.py NAME OUT.mlir

NAME is a section of published.toml. The step is a plain JAX program: a stack of equal layers in one `lax.scan`, splash
attention, float32 or bfloat16 weights, bfloat16 products, Adam. Its sizes, mesh and recomputation are those that the
source states; what the source leaves open is in docs/published.md.
"""

from __future__ import annotations

import sys
import tomllib
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

BETA_1, BETA_2, EPSILON, LEARNING_RATE = 0.9, 0.95, 1e-8, 3e-5
Weights = dict[str, Any]


def shapes(size: SimpleNamespace) -> dict[str, tuple[tuple[int, ...], P]]:
    """Shape and sharding of each weight. Weights of layers have a first axis of that many layers."""
    layers, width, mlp, head = size.layers, size.width, size.mlp, size.head
    return {
        "embedding": ((size.vocabulary, width), P("model", "fsdp")),
        "unembedding": ((width, size.vocabulary), P("fsdp", "model")),
        "last_norm": ((width,), P()),
        "norm_1": ((layers, width), P()),
        "norm_2": ((layers, width), P()),
        "query": ((layers, width, size.heads, head), P(None, "fsdp", "model", None)),
        "key": ((layers, width, size.kv_heads, head), P(None, "fsdp", "model", None)),
        "value": ((layers, width, size.kv_heads, head), P(None, "fsdp", "model", None)),
        "out": ((layers, size.heads, head, width), P(None, "model", None, "fsdp")),
        "gate": ((layers, width, mlp), P(None, "fsdp", "model")),
        "up": ((layers, width, mlp), P(None, "fsdp", "model")),
        "down": ((layers, mlp, width), P(None, "model", "fsdp")),
    }


def normed(values: jax.Array, scale: jax.Array) -> jax.Array:
    """RMSNorm in float32."""
    wide = values.astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6)
    return (wide * inverse * scale).astype(jnp.bfloat16)


def rotated(values: jax.Array) -> jax.Array:
    """Rotary position embedding of (batch, sequence, heads, head)."""
    half = values.shape[-1] // 2
    angles = jnp.arange(values.shape[1])[:, None] * 1e4 ** (-jnp.arange(half) / half)
    sine, cosine = jnp.sin(angles)[None, :, None, :], jnp.cos(angles)[None, :, None, :]
    first, second = jnp.split(values.astype(jnp.float32), 2, axis=-1)
    turned = [first * cosine - second * sine, second * cosine + first * sine]
    return jnp.concatenate(turned, axis=-1).astype(jnp.bfloat16)


def attention(
    query: jax.Array, key: jax.Array, value: jax.Array, size: SimpleNamespace, mesh: Mesh
) -> jax.Array:
    """Causal splash attention on each device's own batch and heads."""
    block = min(size.block, size.sequence)
    blocks = splash.BlockSizes(
        block_q=block, block_kv=block, block_kv_compute=block, block_q_dkv=block, block_kv_dkv=block,
        block_kv_dkv_compute=block, use_fused_bwd_kernel=size.fused_backward,
        block_q_dq=None if size.fused_backward else block, block_kv_dq=None if size.fused_backward else block,
    )  # fmt: skip
    mine = size.heads // mesh.shape["model"]
    mask = masks.MultiHeadMask([masks.CausalMask((size.sequence, size.sequence)) for _ in range(mine)])
    kernel = splash.make_splash_mha(mask, block_sizes=blocks, head_shards=1, q_seq_shards=1)
    axes = P("fsdp", "model", None, None)

    @partial(jax.shard_map, mesh=mesh, in_specs=(axes, axes, axes), out_specs=axes, check_vma=False)
    def local(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
        return jax.vmap(kernel)(query * query.shape[-1] ** -0.5, key, value)

    turned = [each.swapaxes(1, 2) for each in (query, key, value)]
    return local(*turned).swapaxes(1, 2)


def layer(size: SimpleNamespace, mesh: Mesh, values: jax.Array, weights: Weights) -> tuple[jax.Array, None]:
    """One decoder layer on (batch, sequence, width)."""
    narrow = {
        name: each.astype(jnp.bfloat16) for name, each in weights.items() if not name.startswith("norm")
    }
    values = checkpoint_name(values, "layer_input")
    inner = normed(values, weights["norm_1"])
    query = checkpoint_name(jnp.einsum("bsw,whd->bshd", inner, narrow["query"]), "query")
    key = checkpoint_name(jnp.einsum("bsw,wkd->bskd", inner, narrow["key"]), "key")
    value = checkpoint_name(jnp.einsum("bsw,wkd->bskd", inner, narrow["value"]), "value")
    mixed = attention(rotated(query), rotated(key), value, size, mesh)
    out = checkpoint_name(jnp.einsum("bshd,hdw->bsw", mixed, narrow["out"]), "out")
    values = sharded(values + out, mesh, "fsdp", None, size.width_axis)
    inner = normed(values, weights["norm_2"])
    gate = checkpoint_name(jnp.einsum("bsw,wm->bsm", inner, narrow["gate"]), "gate")
    up = checkpoint_name(jnp.einsum("bsw,wm->bsm", inner, narrow["up"]), "up")
    down = checkpoint_name(jnp.einsum("bsm,mw->bsw", jax.nn.silu(gate) * up, narrow["down"]), "down")
    return sharded(values + down, mesh, "fsdp", None, size.width_axis), None


def sharded(values: jax.Array, mesh: Mesh, *axes: Any) -> jax.Array:
    """The values with their sharding stated."""
    return jax.lax.with_sharding_constraint(values, NamedSharding(mesh, P(*axes)))


def policy(size: SimpleNamespace) -> Any:
    """What the forward pass keeps for the backward pass."""
    names = jax.checkpoint_policies
    if size.offload:
        return names.save_and_offload_only_these_names(
            names_which_can_be_saved=[], names_which_can_be_offloaded=size.offload,
            offload_src="device", offload_dst="pinned_host",
        )  # fmt: skip
    return names.save_only_these_names(*size.keep) if size.keep else names.nothing_saveable


def loss(weights: Weights, tokens: jax.Array, size: SimpleNamespace, mesh: Mesh) -> jax.Array:
    """Mean cross entropy of the next token."""
    stacked = {
        name: each for name, each in weights.items() if len(each.shape) > 1 and each.shape[0] == size.layers
    }
    # MaxText's `use_iota_embed`: the embedding is a product with one-hot rows.
    table = weights["embedding"].astype(jnp.bfloat16)
    values = jnp.einsum(
        "bsv,vw->bsw", jax.nn.one_hot(tokens[:, :-1], size.vocabulary, dtype=jnp.bfloat16), table
    )
    values = sharded(values, mesh, "fsdp", None, size.width_axis)
    body = jax.checkpoint(partial(layer, size, mesh), policy=policy(size), prevent_cse=False)
    values, _ = jax.lax.scan(body, values, stacked)
    inner = normed(values, weights["last_norm"])
    logits = jnp.einsum("bsw,wv->bsv", inner, weights["unembedding"].astype(jnp.bfloat16))
    logits = sharded(logits, mesh, "fsdp", None, "model").astype(jnp.float32)
    target = jax.nn.one_hot(tokens[:, 1:], size.vocabulary, dtype=jnp.float32)
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - jnp.sum(logits * target, axis=-1))


def step(size: SimpleNamespace, mesh: Mesh, state: dict[str, Any], tokens: jax.Array) -> Any:
    """One training step: the new state and the loss."""
    value, gradients = jax.value_and_grad(loss)(state["weights"], tokens, size, mesh)
    count = state["count"] + 1
    one = jax.tree.map(
        lambda old, new: (BETA_1 * old + (1 - BETA_1) * new).astype(old.dtype), state["one"], gradients
    )
    two = jax.tree.map(
        lambda old, new: (BETA_2 * old + (1 - BETA_2) * new**2).astype(old.dtype), state["two"], gradients
    )

    def updated(weight: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
        mean, spread = first / (1 - BETA_1**count), second / (1 - BETA_2**count)
        return (weight - LEARNING_RATE * mean / (jnp.sqrt(spread) + EPSILON)).astype(weight.dtype)

    weights = jax.tree.map(updated, state["weights"], one, two)
    return {"weights": weights, "one": one, "two": two, "count": count}, value


def lowered(size: SimpleNamespace) -> str:
    """The step as StableHLO text for a TPU, with its shardings and donations."""
    devices = size.fsdp * size.model
    jax.config.update("jax_num_cpu_devices", devices)
    jax.config.update("jax_use_shardy_partitioner", False)
    mesh = Mesh(np.array(jax.devices("cpu")[:devices]).reshape(size.fsdp, size.model), ("fsdp", "model"))
    kind = jnp.dtype(size.weights)
    abstract = {
        name: jax.ShapeDtypeStruct(shape, kind, sharding=NamedSharding(mesh, axes))
        for name, (shape, axes) in shapes(size).items()
    }
    count = jax.ShapeDtypeStruct((), jnp.int32, sharding=NamedSharding(mesh, P()))
    state = {"weights": abstract, "one": abstract, "two": abstract, "count": count}
    batch = (int(size.per_device_batch * devices), size.sequence + 1)
    tokens = jax.ShapeDtypeStruct(batch, jnp.int32, sharding=NamedSharding(mesh, P("fsdp", None)))
    with mesh:
        traced = jax.jit(partial(step, size, mesh), donate_argnums=0).trace(state, tokens)
        return traced.lower(lowering_platforms=("tpu",)).as_text()


def read(name: str) -> SimpleNamespace:
    """A section of published.toml with what it leaves out."""
    sections = tomllib.loads(Path(__file__).with_name("published.toml").read_text("utf-8"))
    size = SimpleNamespace(**{**sections["defaults"], **sections[name]})
    size.width_axis = "model" if size.model > 1 else None
    return size


if __name__ == "__main__":
    from tpuprof.preflight import pallas

    pallas.choose_mosaic_version()
    Path(sys.argv[2]).write_text(lowered(read(sys.argv[1])), "utf-8")
