"""Builds small traces for tests, event by event. Times are given in microseconds.

trace = TraceBuilder()
python = trace.host().line("python")
python.event("train_step", 0, 1000, _r=1, step_num=0)
trace.tpu(0).line("XLA Modules").event("step(7)", 0, 900)
run = build(trace)
"""

from tpuprof.decode import xplane_pb2

US = 1_000_000


class LineBuilder:
    def __init__(self, plane, name, timestamp_ns):
        self.plane = plane
        self.message = plane.message.lines.add(
            name=name.encode(), id=len(plane.message.lines), timestamp_ns=timestamp_ns
        )

    def event(self, name, start, duration, *, display="", facts=None, **stats):
        """Add an event; `facts` are stats of its metadata, further keywords stats of the event itself."""
        event = self.message.events.add(
            metadata_id=self.plane.name_id(name, display, facts or {}),
            offset_ps=round(start * US),
            duration_ps=round(duration * US),
        )
        for key, value in stats.items():
            self.plane.set_stat(event.stats.add(), key, value)
        return self

    def repeat(self, name, starts, duration, **more):
        """Add the same event at several starts."""
        for start in starts:
            self.event(name, start, duration, **more)
        return self


class PlaneBuilder:
    def __init__(self, space, name):
        self.message = space.planes.add(name=name.encode(), id=len(space.planes))
        self._names = {}
        self._stats = {}
        self._lines = {}

    def line(self, name, timestamp_ns=1_000):
        """The line of that name, made when first asked for."""
        if name not in self._lines:
            self._lines[name] = LineBuilder(self, name, timestamp_ns)
        return self._lines[name]

    def stat(self, **stats):
        """Add stats to the plane itself."""
        for key, value in stats.items():
            self.set_stat(self.message.stats.add(), key, value)
        return self

    def name_id(self, name, display, facts):
        if name not in self._names:
            number = self._names[name] = len(self._names) + 1
            metadata = self.message.event_metadata[number]
            metadata.id, metadata.name, metadata.display_name = number, name.encode(), display.encode()
            for key, value in facts.items():
                self.set_stat(metadata.stats.add(), key, value)
        return self._names[name]

    def set_stat(self, stat, key, value):
        stat.metadata_id = self._stat_id(key)
        if isinstance(value, bool | int):
            stat.int64_value = int(value)
        elif isinstance(value, float):
            stat.double_value = value
        elif isinstance(value, bytes):
            stat.bytes_value = value
        else:
            stat.str_value = value.encode()

    def _stat_id(self, key):
        if key not in self._stats:
            number = self._stats[key] = len(self._stats) + 1
            self.message.stat_metadata[number].id = number
            self.message.stat_metadata[number].name = key.encode()
        return self._stats[key]


class TraceBuilder:
    def __init__(self):
        self.space = xplane_pb2.XSpace()
        self._planes = {}

    def plane(self, name):
        """The plane of that name, made when first asked for."""
        if name not in self._planes:
            self._planes[name] = PlaneBuilder(self.space, name)
        return self._planes[name]

    def host(self):
        """The plane of host threads."""
        return self.plane("/host:CPU")

    def tpu(self, index):
        """The plane of one TensorCore."""
        return self.plane(f"/device:TPU:{index}")

    def sampled(
        self,
        start,
        duration,
        *,
        ops=0,
        cpu=None,
        ready=0,
        others=0,
        process=0,
        stack=0,
        asleep=None,
        late_us=0,
        frames="",
        **words,
    ):
        """Add a sample of the training thread's stack at the end of an interval; `ops` were traced in it."""
        facts = {
            "stack": stack,
            "gap_us": round(duration),
            "ops": ops,
            "wait_us": round(ready),
            "python_us": round(others),
        }
        facts["cpu_us"] = round(duration if cpu is None else cpu)
        facts |= {"late_us": late_us} if late_us else {}
        facts |= {"process_us": round(process)} if process else {}
        if asleep is not None:
            facts |= {"prompt": 1, "asleep": int(asleep)}
        words = {"frames": frames, "call": "", "source": "", "user_call": "", **words} if frames else {}
        line = self.host().line("tpuprof-sampler")
        line.event("tpuprof.sample", start + duration, 0, **facts, **words)
        return self

    def to_bytes(self):
        return self.space.SerializeToString()

    def write(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.to_bytes())
        return path


def op(name, opcode="fusion", layout="", operand="%p", category=""):
    """Keywords of an XLA op event: its HLO line as name, its short name and category."""
    return {
        "name": f"%{name} = f32[8]{{0{layout}}} {opcode}(f32[8]{{0}} {operand})",
        "display": name,
        "facts": {"hlo_category": category or opcode},
    }
