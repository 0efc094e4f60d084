"""One iteration among runs of programs, on logs made by hand: names, updates, what waits in memory."""

from tpuprof.preflight.pjrt_taps import Buffer, Log, Run
from tpuprof.preflight.step_window import Window

FORWARD, UPDATE = 0, 1


class Device:
    """Writes a log as the taps do: a forward pass that reads the weight, an update in its place."""

    def __init__(self):
        self.log = Log([("mlir", b"forward"), ("mlir", b"update")])
        self.weight = self.buffer((4, 4))

    def buffer(self, shape, made=None):
        size = 4
        for each in shape:
            size *= each
        number = len(self.log.buffers)
        self.log.buffers.append(Buffer(number, shape, "float32", size, len(self.log.runs), None, made))
        return number

    def run(self, program, taken, shapes):
        made = [self.buffer(shape, (len(self.log.runs), index)) for index, shape in enumerate(shapes)]
        self.log.runs.append(Run(program, taken, made))
        return made

    def free(self, number):
        self.log.buffers[number].died = len(self.log.runs)

    def step(self):
        batch = self.buffer((8, 4))
        (activation,) = self.run(FORWARD, [batch, self.weight], [(8, 4)])
        (new,) = self.run(UPDATE, [self.weight, activation], [(4, 4)])
        for each in (self.weight, activation, batch):
            self.free(each)
        self.weight = new


def window_of(device, steps=3):
    for _ in range(steps):
        device.step()
    window = Window(device.log, 2 * steps - 2, 2 * steps)
    window.name({device.weight: "fc.weight"})
    return window


def test_a_weight_of_an_earlier_iteration_has_the_name_of_the_last_one():
    device = Device()
    facts = window_of(device).facts(window_of(Device()).updates(set()))
    assert facts[FORWARD]["parameter_names"] == ["", "fc.weight"]
    assert facts[UPDATE]["parameter_names"] == ["fc.weight", ""]
    assert facts[UPDATE]["output_names"] == ["fc.weight"]


def test_the_program_that_makes_a_weight_updates_it():
    device = Device()
    window = window_of(device)
    assert window.updates({device.weight}) == {UPDATE: 1}
    # A weight that was uploaded before the iteration is none of its updates.
    assert not window.updates({0})


def test_ops_that_run_behind_the_iteration_are_the_same_ones_within_it():
    device = Device()
    for _ in range(3):
        device.step()
    window = Window(device.log, 2, 4)
    window.name({device.weight: "fc.weight"})
    assert window.updates({device.weight}) == {UPDATE: 1}
    assert window.facts(window.updates({device.weight}))[UPDATE]["output_names"] == ["fc.weight"]


def test_what_a_run_does_not_use_waits_beside_it_and_its_batch_does_not():
    device = Device()
    device.buffer((16, 16))
    window = window_of(device)
    facts = window.facts(window.updates({device.weight}))
    beside = {program: [each["shape"] for each in found["resident"]] for program, found in facts.items()}
    # The batch waits while the weight is updated: it is freed after that.
    assert beside == {FORWARD: [[16, 16]], UPDATE: [[16, 16], [8, 4]]}


def test_an_op_in_place_hands_the_name_on_and_one_that_leaves_its_input_does_not():
    device = Device()
    device.log.programs.append(("mlir", b"decay"))
    for _ in range(3):
        (decayed,) = device.run(2, [device.weight], [(4, 4)])
        device.free(device.weight)
        (squared,) = device.run(FORWARD, [decayed], [(4, 4)])
        (device.weight,) = device.run(UPDATE, [decayed, squared], [(4, 4)])
        device.free(decayed)
        device.free(squared)
    window = Window(device.log, 6, 9)
    window.name({device.weight: "w"})
    facts = window.facts(window.updates({device.weight}))
    assert facts[2]["output_names"] == ["w"]
    assert facts[FORWARD]["output_names"] == [""]
    assert facts[UPDATE]["parameter_names"] == ["w", ""]
