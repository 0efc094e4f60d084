"""Which optimizer is which, where some are made again and again."""

import gc

import pytest

from tpuprof.instrument.optimizer_numbers import MAX_OPTIMIZERS, SAME_KIND_FROM, OptimizerNumbers

torch = pytest.importorskip("torch")


def adam(parameters=2):
    return torch.optim.Adam([torch.nn.Parameter(torch.zeros(2)) for _ in range(parameters)])


def test_an_inner_optimizer_that_is_made_for_each_task_is_one():
    """MAML: "1121 steps (high confidence)" were its inner ones; the program has 60."""
    numbers, outer = OptimizerNumbers(), torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], 0.1)
    found = []
    for _ in range(3):
        for _ in range(2):
            inner = adam()
            found.append(numbers.of(inner))
            del inner
            gc.collect()
        found.append(numbers.of(outer))
    assert found == [0, 0, 1] * 3


@pytest.mark.parametrize("alive", [SAME_KIND_FROM - 1, SAME_KIND_FROM])
def test_equal_optimizers_that_live_are_told_apart_as_long_as_they_are_few(alive):
    """What is not collected yet would be a new one in each round, and come after the outer one."""
    numbers, kept = OptimizerNumbers(), [adam() for _ in range(alive + 1)]
    found = [numbers.of(each) for each in kept]
    assert found == [*range(alive), alive if alive < SAME_KIND_FROM else 0]
    assert [numbers.of(each) for each in kept] == found


def test_others_of_another_size_or_class_keep_their_own_number():
    numbers, kept = (
        OptimizerNumbers(),
        [adam(1), adam(2), torch.optim.SGD(adam(1).param_groups[0]["params"], 0.1)],
    )
    assert [numbers.of(each) for each in kept] == [0, 1, 2]


def test_there_is_an_end_to_them():
    numbers, kept = OptimizerNumbers(), [adam(size) for size in range(1, MAX_OPTIMIZERS + 3)]
    assert [numbers.of(each) for each in kept][-3:] == [MAX_OPTIMIZERS - 1] * 3
