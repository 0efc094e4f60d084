"""Hooks of training libraries, each with a tiny random model trained for real."""

import pytest

from tpuprof.instrument.state import STATE


@pytest.fixture
def marked():
    numbers = []

    def listener(number, _samples):
        numbers.append(number)

    STATE.listeners.append(listener)
    yield numbers
    STATE.listeners.remove(listener)


def data(torch, count=24):
    torch.manual_seed(0)
    return torch.utils.data.TensorDataset(torch.randn(count, 8), torch.randint(0, 2, (count,)))


def test_accelerate_marks_each_update(marked):
    accelerate, torch = pytest.importorskip("accelerate"), pytest.importorskip("torch")
    from tpuprof.hooks.accelerate import mark_steps

    accelerator = mark_steps(mark_steps(accelerate.Accelerator(gradient_accumulation_steps=2, cpu=True)))
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(
        model, optimizer, torch.utils.data.DataLoader(data(torch), batch_size=4)
    )
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(torch.nn.functional.cross_entropy(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
    assert marked == [0, 1, 2]


def test_transformers_trainer_marks_each_update(marked, tmp_path):
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    from tpuprof.hooks.transformers import StepMarks

    callback = StepMarks()
    handler = transformers.trainer_callback.CallbackHandler([callback], None, None, None, None)
    arguments = transformers.TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to=[])
    state, control = transformers.TrainerState(), transformers.TrainerControl()
    torch.manual_seed(0)
    for update in range(3):
        state.global_step = update
        handler.on_step_begin(arguments, state, control)
        for _ in range(2):  # two micro-batches of one update
            handler.on_substep_end(arguments, state, control)
        handler.on_step_end(arguments, state, control)
    assert marked == [0, 1, 2]


@pytest.mark.slow("trains with the library's own loop")
def test_transformers_trainer_marks_each_update_of_its_own_loop(marked, tmp_path):
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    from tpuprof.hooks.transformers import StepMarks

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 2)

        def forward(self, x, labels):
            logits = self.layer(x)
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    def collate(rows):
        return {"x": torch.stack([x for x, _ in rows]), "labels": torch.stack([y for _, y in rows])}

    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=3,
        report_to=[], save_strategy="no", disable_tqdm=True, remove_unused_columns=False, optim="adamw_torch",
    )  # fmt: skip
    trainer = transformers.Trainer(
        model=Model(),
        args=arguments,
        train_dataset=data(torch),
        data_collator=collate,
        callbacks=[StepMarks()],
    )
    trainer.train()
    assert marked == [0, 1, 2]


def test_lightning_marks_each_update(marked, tmp_path, monkeypatch):
    # Lightning asks torch_xla for the TPU's version, which asks a metadata server unless the environment answers.
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v5litepod-4")
    lightning, torch = pytest.importorskip("lightning.pytorch"), pytest.importorskip("torch")
    from tpuprof.hooks.lightning import StepMarks

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 2)

        def training_step(self, batch, _):
            return torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        max_steps=3, accumulate_grad_batches=2, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=str(tmp_path),
        callbacks=[StepMarks()],
    )  # fmt: skip
    trainer.fit(Module(), torch.utils.data.DataLoader(data(torch), batch_size=4))
    assert marked == [0, 1, 2]


def test_a_backward_pass_that_fails_reaches_the_program(marked):
    from tpuprof.hooks.accelerate import mark_steps

    class Accelerator:
        sync_gradients = True

        def backward(self, loss):
            raise ValueError(loss)

    with pytest.raises(ValueError, match="no gradient"):
        mark_steps(Accelerator()).backward("no gradient")
