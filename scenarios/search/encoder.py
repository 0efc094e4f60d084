"""BERT of Hugging Face with masked language modelling, in float32."""

import argparse

import torch
import torch_xla
from transformers import BertConfig, BertForMaskedLM

parser = argparse.ArgumentParser()
parser.add_argument("--per_device_train_batch_size", type=int, default=8)
parser.add_argument("--gradient_checkpointing", action="store_true")
args = parser.parse_args()
config = BertConfig(
    vocab_size=8192, hidden_size=512, num_hidden_layers=1, num_attention_heads=8, intermediate_size=2048
)
device = torch_xla.device()
model = BertForMaskedLM(config).to(device)
if args.gradient_checkpointing:
    model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(20):
    tokens = torch.randint(0, 8192, (args.per_device_train_batch_size, 128)).to(device)
    optimizer.zero_grad()
    loss = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens).loss
    loss.backward()
    optimizer.step()
    torch_xla.sync()
