import time

import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)


class Reviews(Dataset):
    def __init__(self, size, length=24):
        rng = torch.Generator().manual_seed(1)
        self.ids = torch.randint(5, 500, (size, length), generator=rng)
        self.labels = torch.randint(0, 2, (size,), generator=rng)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {
            "input_ids": self.ids[i],
            "attention_mask": torch.ones_like(self.ids[i]),
            "labels": self.labels[i],
        }


class Clock(TrainerCallback):
    ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


set_seed(0)
config = BertConfig(
    vocab_size=500,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
trainer = Trainer(
    model=BertForSequenceClassification(config),
    args=TrainingArguments(
        output_dir="out",
        max_steps=30,
        per_device_train_batch_size=8,
        report_to="none",
        save_strategy="no",
        optim="adamw_torch",
        disable_tqdm=True,
        logging_steps=15,
        eval_strategy="steps",
        eval_steps=5,
    ),
    train_dataset=Reviews(256),
    eval_dataset=Reviews(40),
    callbacks=[Clock()],
)
trainer.train()
print("losses", [round(row["loss"], 5) for row in trainer.state.log_history if "loss" in row])
ends = Clock.ends
print(f"{(ends[-1] - ends[7]) / (len(ends) - 8) * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(ends, ends[1:])))
