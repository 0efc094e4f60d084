"""Which gradients count as added up and used by no optimizer, by what a process itself holds."""

import copy
import gc
from types import SimpleNamespace

import pytest
import torch

from tpuprof.capture.held_gradients import BY_CLOCK, FROZEN, GONE, NO_OPTIMIZER, NO_TORCH, HeldGradients
from tpuprof.instrument.state import STATE

BATCH = torch.ones(4, 8)


@pytest.fixture(autouse=True)
def no_frozen_objects():
    """The objects of the tests' own start are frozen, which the look would take for a program that hides its own."""
    gc.unfreeze()
    yield
    gc.freeze()


def model(out=8):
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, out))


def looked(step, counts=True, steps=4, before=3):
    """What is noted of so many steps after some; `counts` is whether a torch optimizer stepped."""
    held = HeldGradients()
    for at in range(before + steps):
        if at == before:
            held.begins()
        step(at)
        if counts:
            held.stepped(0)
    return held.ends()


def found(noted):
    """Parameters and changes of each, by module."""
    rows = noted["parameters"]
    return {
        each["module"]: sum(row["count"] for row in rows if row["module"] == each["module"]) for each in rows
    }


class Distilled:
    """A student and its teacher, whose forward pass has gradients."""

    def __init__(self):
        self.teacher, self.student = model(), model()
        self.optimizer = torch.optim.SGD(self.student.parameters(), lr=0.1)

    def __call__(self, at):
        self.optimizer.zero_grad()
        loss = (self.student(BATCH) - self.teacher(BATCH)).square().mean()
        loss.backward()
        self.optimizer.step()
        self.after(at)

    def after(self, at):
        """What else a step does."""


def test_a_teacher_with_gradients_is_found_with_its_module_and_how_often_they_grew():
    noted = looked(Distilled())
    assert found(noted) == {"Sequential": 4}
    weights = next(each for each in noted["parameters"] if each["shape"] == [8, 8])
    assert (weights["count"], weights["bytes"], weights["grew_least"], weights["grew_most"]) == (2, 512, 4, 4)
    assert (noted["steps"], noted["steps_before"], weights["changes_before"]) == (4, 3, 2)


def test_of_a_model_the_part_that_the_optimizer_lacks_is_named():
    whole = torch.nn.Module()
    whole.backbone, whole.head = model(), torch.nn.Linear(8, 2)
    optimizer = torch.optim.AdamW(whole.head.parameters())

    def step(_):
        optimizer.zero_grad()
        whole.head(whole.backbone(BATCH)).square().mean().backward()
        optimizer.step()

    assert found(looked(step)) == {"Module.backbone": 4}


class NoGradients(Distilled):
    def __init__(self):
        super().__init__()
        self.teacher.requires_grad_(False)


class SetToNone(Distilled):
    def after(self, at):
        self.teacher.zero_grad()


class SetToNoneSometimes(Distilled):
    def after(self, at):
        if at % 3 == 2:
            self.teacher.zero_grad()


class UpdatedByHand(Distilled):
    def after(self, at):
        with torch.no_grad():
            for each in self.teacher.parameters():
                each.sub_(0.1 * each.grad)


class MovingAverage(Distilled):
    def after(self, at):
        with torch.no_grad():
            for slow, fast in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                slow.lerp_(fast, 0.1)


class OfAnotherOptimizer(Distilled):
    """It has not stepped yet."""

    def __init__(self):
        super().__init__()
        self.other = torch.optim.Adam(self.teacher.parameters())


class StepsSometimes(OfAnotherOptimizer):
    def after(self, at):
        if at % 4 == 3:
            self.other.step()
            self.other.zero_grad()


class AddedToIt(Distilled):
    def __init__(self):
        super().__init__()
        self.optimizer.add_param_group({"params": list(self.teacher.parameters()), "lr": 0.0})


class CopiedEachTime(Distilled):
    def __call__(self, at):
        self.teacher = copy.deepcopy(self.student)
        super().__call__(at)


class LeftFromBefore(Distilled):
    """The teacher has gradients of its own training, and gets no more."""

    def __init__(self):
        super().__init__()
        self.teacher(BATCH).square().mean().backward()
        self.teacher.requires_grad_(False)


@pytest.mark.parametrize(
    "kind",
    [
        NoGradients,
        SetToNone,
        SetToNoneSometimes,
        UpdatedByHand,
        MovingAverage,
        OfAnotherOptimizer,
        StepsSometimes,
        AddedToIt,
        CopiedEachTime,
        LeftFromBefore,
    ],
)
def test_gradients_that_somebody_takes_are_not_found(kind):
    assert looked(kind())["parameters"] == []


def test_without_an_optimizer_of_torch_nobody_knows_who_updates():
    assert looked(Distilled(), counts=False) == {"unavailable": NO_OPTIMIZER}
    assert looked(NoGradients(), counts=False)["parameters"] == []


def test_a_recording_that_follows_no_steps_is_not_looked_at():
    held = HeldGradients()
    held.begins(by_clock=True)
    held.stepped(0)
    assert held.ends() == {"unavailable": BY_CLOCK}


def test_objects_that_are_hidden_from_a_walk_make_it_unknown():
    gc.freeze()
    try:
        noted = looked(Distilled())
    finally:
        gc.unfreeze()
    assert noted == {"unavailable": FROZEN}


def test_gradients_that_were_made_anew_have_fewer_changes_than_steps():
    """Whether somebody takes them once in a while is then open."""

    class Anew(Distilled):
        def after(self, at):
            if at == 4:
                self.teacher.zero_grad()

    noted = looked(Anew(), before=8)
    assert noted["steps_before"] == 8
    assert {each["changes_before"] for each in noted["parameters"]} == {2}


def test_a_program_that_left_its_function_before_the_recording_ended_is_not_passed():
    held, run = HeldGradients(), Distilled()
    for at in range(6):
        if at == 3:
            held.begins()
        run(at)
        held.stepped(0)
    del run
    gc.collect()
    assert held.ends() == {"unavailable": GONE}


def test_a_program_of_jax_is_not_looked_at(monkeypatch):
    """It may have torch for its loader: to look at its objects would cost time for nothing."""
    monkeypatch.setattr(STATE, "framework", SimpleNamespace(name="jax"))
    monkeypatch.setattr("tpuprof.capture.held_gradients._alive", lambda: pytest.fail("looked"))
    assert looked(Distilled()) == {"unavailable": NO_TORCH}
