"""A decoder-only transformer training loop in the variants preflight compares.

--variant loop: layers in a Python loop, one chip. scan: the same layers through scan_layers. fsdp: FSDPv2 over
all chips. fsdp_scan: both. remat: loop whose backward computes each layer again from its input. offload: the same with
the inputs kept in host memory in between.
"""

import argparse

import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.runtime as xr
from torch import nn


class Block(nn.Module):
    """Pre-norm attention and MLP."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.norm2 = nn.RMSNorm(dim)
        self.up = nn.Linear(dim, 4 * dim, bias=False)
        self.down = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend, then mix, each added to what came in."""
        batch, length, dim = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        scores = torch.matmul(q, k.transpose(-1, -2)) * (dim // self.heads) ** -0.5
        mixed = torch.matmul(torch.softmax(scores, -1), v).transpose(1, 2).reshape(batch, length, dim)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Embedding, `layers` blocks, output head."""

    def __init__(self, vocab: int, dim: int, layers: int, heads: int, variant: str) -> None:
        super().__init__()
        self.variant = variant
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the next token at each position."""
        return self.head(self.run_layers(self.embed(tokens)))

    def run_layers(self, x: torch.Tensor) -> torch.Tensor:
        """All blocks, in the way the variant says."""
        if self.variant in ("scan", "fsdp_scan"):
            from torch_xla.experimental.scan_layers import scan_layers

            return scan_layers(self.layers, x)
        for layer in self.layers:
            if self.variant in ("remat", "offload"):
                x = RecomputedLayer.apply(layer, self.variant == "offload", x, *layer.parameters())
            else:
                x = layer(x)
        return x


class RecomputedLayer(torch.autograd.Function):
    """Computes a layer again in the backward, from its input kept on the device or, if asked, in host memory."""

    @staticmethod
    def forward(ctx, layer, on_host, x, *weights):  # noqa: ARG004
        """Run the layer and keep its input; `weights` are there to get gradients."""
        from torch_xla.experimental.stablehlo_custom_call import place_to_host

        ctx.layer, ctx.on_host = layer, on_host
        ctx.save_for_backward(place_to_host(x) if on_host else x)
        with torch.no_grad():
            return layer(x)

    @staticmethod
    def backward(ctx, grad):
        """Fetch the input and compute the layer again, not before its turn in the backward has come."""
        import torch_xla.core.xla_model as xm
        from torch_xla.experimental.stablehlo_custom_call import place_to_device

        x = place_to_device(ctx.saved_tensors[0]) if ctx.on_host else ctx.saved_tensors[0].clone()
        x, grad = x.detach(), grad.clone()
        xm.optimization_barrier_([x, grad])
        x.requires_grad_()
        with torch.enable_grad():
            y = ctx.layer(x)
        weights = list(ctx.layer.parameters())
        return None, None, *torch.autograd.grad(y, [x, *weights], grad)


def shard(model: nn.Module) -> nn.Module:
    """Wrap in FSDPv2 over all devices."""
    import numpy as np
    import torch_xla.distributed.spmd as xs
    from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel

    count = xr.global_runtime_device_count()
    mesh = xs.Mesh(np.arange(count), (count, 1), ("fsdp", "model"))
    xs.set_global_mesh(mesh)

    def output(value, mesh):
        xs.mark_sharding(value, mesh, ("fsdp", None, None))

    if model.variant == "fsdp":
        for index, layer in enumerate(model.layers):
            model.layers[index] = SpmdFullyShardedDataParallel(layer, mesh=mesh, shard_output=output)
    else:
        shard_weights(model, mesh)
    return SpmdFullyShardedDataParallel(model, mesh=mesh, shard_output=output)


def shard_weights(model: nn.Module, mesh) -> None:
    """Shard every weight's largest dimension: scan_layers wants plain modules in the list."""
    import torch_xla.distributed.spmd as xs

    model.to("xla")
    for weight in model.parameters():
        spec = [None] * weight.dim()
        spec[max(range(weight.dim()), key=lambda axis: weight.shape[axis])] = "fsdp"
        xs.mark_sharding(weight, mesh, tuple(spec))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--variant", default="loop", choices=["loop", "scan", "fsdp", "fsdp_scan", "remat", "offload"]
    )
    for name, value in {
        "layers": 4,
        "dim": 512,
        "vocab": 8192,
        "batch": 8,
        "length": 512,
        "steps": 5,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    sharded = args.variant.startswith("fsdp")
    if sharded:
        xr.use_spmd()
    model = Decoder(args.vocab, args.dim, args.layers, args.dim // 128, args.variant).to(torch.bfloat16)
    device = torch_xla.device()
    model = shard(model) if sharded else model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        tokens = torch.randint(0, args.vocab, (args.batch, args.length)).to(device)
        if sharded:
            import torch_xla.distributed.spmd as xs

            xs.mark_sharding(tokens, xs.get_global_mesh(), ("fsdp", None))
        optimizer.zero_grad()
        logits = model(tokens)
        loss = F.cross_entropy(logits.view(-1, args.vocab).float(), tokens.view(-1))
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main()
