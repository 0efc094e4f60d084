"""The training script that `tpuprof demo` captures: its batches do not all have the same length.

Every few steps a longer batch arrives, as from a data set without padding. Each new length is a new graph,
so XLA compiles in the middle of training: that is the planted fault.
"""

from __future__ import annotations

import torch
import torch_xla

from tpuprof.demo.decoder import Decoder, Shape, next_token_loss

STEPS = 24
BATCH = 8
USUAL_LENGTH = 33
# Steps from which on every third batch is longer than any before (step number).
FAULT_FROM = 12


def main() -> None:
    """Train for a few steps and print the loss."""
    torch.manual_seed(0)
    device = torch_xla.device()
    shape = Shape()
    model = Decoder(shape).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss = torch.zeros(())
    for step in range(STEPS):
        tokens = torch.randint(shape.vocabulary, (BATCH, _length(step))).to(device)
        optimizer.zero_grad()
        loss = next_token_loss(model, tokens)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    print(f"trained {STEPS} steps, last loss {loss.item():.3f}")


def _length(step: int) -> int:
    late = step - FAULT_FROM
    return USUAL_LENGTH + 8 * (late // 3 + 1) if late >= 0 and late % 3 == 0 else USUAL_LENGTH


if __name__ == "__main__":
    main()
