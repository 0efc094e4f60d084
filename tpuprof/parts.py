"""The parts of a step's breakdown, in one table: what each is called, means and looks like, and how it is replayed.

Everything that names, paints, prices or draws parts reads this table: a part that is added here is known everywhere.
Two families have parts without a row of their own: `host:WHAT` (from stack samples) and `user:NAME` (annotations).
"""

# Past 400 lines: it is one table.

from __future__ import annotations

from enum import Enum

from tpuprof.records import record

COMPUTE = "compute"
COLLECTIVE = "collective_exposed"
OFFLOAD = "offload_exposed"
HOST_IO = "infeed_outfeed"
CALLBACK = "host_callback"
OTHER_DEVICE = "other_device"
TRACING = "tracing"
COMPILE = "compile"
INPUT_WAIT = "input_wait"
HOST_TO_DEVICE = "host_to_device"
HOST_SYNC = "device_to_host_sync"
DISPATCH = "dispatch"
ATEN_FALLBACK = "aten_fallback"
HOST_OTHER = "host_other"
UNKNOWN = "unknown"
USER_PREFIX = "user:"
HOST_PREFIX = "host:"
# What is said where the device, or the thread that hands programs to it, holds training up.
EITHER_BEFORE = "Undecided: reads wait for work that was handed over before"
# What the host does in `dispatch`, what its other threads do, what is said of `undecided` and of `unknown`, and what
# the host does where a framework calls ops on a GPU.
HANDS_OVER = "hands over programs already built"
ELSEWHERE = "another thread hands programs over"
NOT_TOLD = "nothing in the trace tells these two apart."
NOT_NAMED = "while the host does something the trace does not name"
CALLS_OPS = "calls ops and launches their kernels one by one"
# Python's garbage collections, checkpoints, and what tpuprof does at a step's end: annotations that it makes.
GARBAGE = f"{USER_PREFIX}gc"
CHECKPOINT = f"{USER_PREFIX}checkpoint"
OWN_WORK = f"{USER_PREFIX}overhead"
# The verdict's word where an annotation of the program's own holds a step back.
ANNOTATION = "annotation"


class Replay(Enum):
    """How a replay treats the host's time in a part: what makes it end."""

    DEVICE = "device"  # no time of the host: a piece of device work
    WORK = "work"  # takes as long as it took
    WAIT = "wait"  # ends when the device work does that ended in it
    HAND_OVER = "hand_over"  # ends so where the queue is full, else takes as long as it took


@record(frozen=True)
class Part:
    r"""One part of the breakdown.

    `word` is the verdict's when this part is the largest, a name in `WORDS`. `activities` are the host activities
    (`tpuprof.model.host.vocabulary`) that count for it while the device idles. `tile` parts have a figure of
    their own on the dashboard's first page. `colour` is for charts, `hatch` makes it readable without colour
    ("", "/", "\\", "x", "|", "-", "."), `terminal` is rich's name of a colour.
    """

    name: str
    title: str
    meaning: str
    word: str
    replay: Replay
    colour: str
    hatch: str
    terminal: str
    activities: tuple[str, ...] = ()
    tile: bool = False

    @property
    def on_device(self) -> bool:
        """Whether the device is in a program during this part."""
        return self.replay is Replay.DEVICE


@record(frozen=True)
class Word:
    """A word of the verdict: its sentence, the category of the rules that can help, and what a stretch of it is.

    `sentence` has `{of_step}` where the share and the time belong; empty where the verdict words it itself. `unseen` is
    the same where the trace does not show what the device does. `part` is the part that its evidence and its colour
    come from.
    """

    name: str
    sentence: str = ""
    category: str = ""
    part: str = ""
    stretch: str = ""
    unseen: str = ""

    @property
    def title(self) -> str:
        """`tracing` as `Tracing-bound`."""
        if self.name in OWN_ANNOTATIONS:
            return f"Held back by {OWN_ANNOTATIONS[self.name][0]}"
        if self.name == ANNOTATION:
            return "Held back in an annotation"
        word = self.name.capitalize()
        return word if self.name in ("unknown", "undecided") else f"{word}-bound"


_DEVICE, _WORK, _WAIT = Replay.DEVICE, Replay.WORK, Replay.WAIT
# Okabe and Ito's palette, distinguishable with colour-vision deficiencies. Parts are in the order of display.
PARTS: tuple[Part, ...] = (
    Part(COMPUTE, "Compute", "ops that do the model's work", "device", _DEVICE, "#009E73", "", "green"),
    Part(
        COLLECTIVE,
        "Exposed collectives",
        "communication between chips that nothing hides",
        "collective",
        _DEVICE,
        "#CC79A7",
        "/",
        "magenta",
        tile=True,
    ),
    Part(
        OFFLOAD,
        "Exposed host offload",
        "copies to and from host memory that nothing hides",
        "offload",
        _DEVICE,
        "#0072B2",
        "\\",
        "bright_magenta",
        tile=True,
    ),
    Part(
        HOST_IO,
        "Infeed and outfeed",
        "infeed and outfeed",
        "input",
        _DEVICE,
        "#56B4E9",
        "-",
        "bright_cyan",
    ),
    Part(
        CALLBACK,
        "Host callbacks",
        "the program waits for a Python function on the host",
        "callback",
        _DEVICE,
        "#882255",
        "x",
        "bright_red",
    ),
    Part(
        OTHER_DEVICE,
        "Other device work",
        "inside a program, in none of the above",
        "device",
        _DEVICE,
        "#7FCDB5",
        "",
        "bright_green",
    ),
    Part(
        TRACING,
        "Exposed tracing",
        "device idle while Python builds the next graph",
        "tracing",
        _WORK,
        "#E69F00",
        "x",
        "yellow",
        ("tracing",),
        tile=True,
    ),
    Part(
        COMPILE,
        "Compiling",
        "device idle while XLA compiles",
        "compile",
        _WORK,
        "#D55E00",
        "|",
        "red",
        ("compile",),
        tile=True,
    ),
    Part(
        INPUT_WAIT,
        "Input wait",
        "device idle while training waits for the next batch",
        "input",
        _WORK,
        "#56B4E9",
        ".",
        "cyan",
        ("input_wait",),
        tile=True,
    ),
    Part(
        HOST_TO_DEVICE,
        "Host-to-device copies",
        "device idle while data is copied to it",
        "input",
        _WORK,
        "#0072B2",
        ".",
        "bright_blue",
        ("host_to_device",),
    ),
    Part(
        HOST_SYNC,
        "Device-to-host reads",
        "device idle while a value is read back",
        "sync",
        _WAIT,
        "#CC79A7",
        "x",
        "bright_red",
        ("device_to_host_sync",),
        tile=True,
    ),
    # A host that waits for a device which idles is waiting for work that it has handed over and that has not begun.
    Part(
        DISPATCH,
        "Dispatch",
        "device idle while a program is handed over",
        "dispatch",
        Replay.HAND_OVER,
        "#F0E442",
        "|",
        "blue",
        ("dispatch", "device_wait"),
    ),
    Part(
        ATEN_FALLBACK,
        "CPU fallbacks",
        "device idle while the host runs an op that XLA does not know",
        "fallback",
        _WORK,
        "#D55E00",
        "\\",
        "red",
    ),
    Part(
        HOST_OTHER,
        "Other host time",
        "device idle while the host does something that neither events nor samples name",
        "undecided",
        _WORK,
        "#999999",
        "/",
        "bright_black",
        ("host_other",),
    ),
    Part(
        UNKNOWN,
        "Idle, not explained",
        "device idle, reason unknown",
        "unknown",
        _WAIT,
        "#999999",
        "",
        "bright_black",
    ),
)

# What stack samples can say of the host, by what follows `host:` (title, meaning).
HOST_KINDS: dict[str, tuple[str, str]] = {
    "sleep": ("Host sleeps", "device idle while the training thread sleeps"),
    "io": (
        "Host reads or writes",
        "device idle while the training thread reads or writes files, pipes or sockets",
    ),
    "lock": (
        "Host waits for a thread or process",
        "device idle while the training thread waits for a lock, queue or process",
    ),
    "gil": ("Host waits for the GIL", "device idle while another thread of the program holds Python's lock"),
    "python": (
        "Code without work for the device",
        "device idle while the training thread runs code that gives the device no work",
    ),
    "wait": ("Host waits", "device idle while the training thread waits in a call, for what is unknown"),
}
# Annotations that tpuprof itself makes.
_USER_KINDS: dict[str, tuple[str, str]] = {
    "gc": ("Python garbage collection", "device idle while Python collects garbage"),
    "overhead": ("tpuprof's own work", "device idle while tpuprof itself works at a step's end"),
    "checkpoint": ("checkpoint", "device idle while the training thread saves one"),
}
# What the verdict says of annotations that no user made: what holds training up, and what is done meanwhile.
OWN_ANNOTATIONS: dict[str, tuple[str, str]] = {
    "gc": ("garbage collections", "Python collects"),
    "checkpoint": ("checkpoints", "the host saves one"),
}

WORDS: dict[str, Word] = {
    each.name: each
    for each in (
        Word("device", part=COMPUTE),
        Word(
            "tracing",
            "Tracing-bound: the device idles for {of_step} while the host traces the next graph.",
            "tracing",
            TRACING,
            "device idle while the host traces",
            unseen="Tracing-bound: the host traces for {of_step}.",
        ),
        Word(
            "compile",
            "Compile-bound: the device idles for {of_step} while XLA compiles.",
            "compile",
            COMPILE,
            "device idle while XLA compiles",
            unseen="Compile-bound: programs are compiled for {of_step}.",
        ),
        Word(
            "input",
            "Input-bound: the device idles for {of_step} waiting for data.",
            "input",
            INPUT_WAIT,
            "device idle while training waits for a batch",
            unseen="Input-bound: the host waits for data or copies it for {of_step}.",
        ),
        Word(
            "sync",
            "Sync-bound: the device idles for {of_step} while the host reads a value from it.",
            "host",
            HOST_SYNC,
            "device idle while a value is read back",
            unseen="Sync-bound: the host waits in device-to-host reads for {of_step}.",
        ),
        Word(
            "offload",
            "Offload-bound: the device waits for {of_step} on copies to and from host memory.",
            "offload",
            OFFLOAD,
            "device waits on a copy to or from host memory",
        ),
        Word(
            "collective",
            "Collective-bound: the device waits for {of_step} on communication that nothing hides.",
            "collective",
            COLLECTIVE,
            "device waits on communication",
        ),
        Word(
            "callback",
            "Callback-bound: the program on the device waits for {of_step} for Python functions on the host.",
            "host",
            CALLBACK,
            "device waits for a Python function",
        ),
        Word(
            "dispatch",
            f"Dispatch-bound: the device idles for {{of_step}} while the host {HANDS_OVER}.",
            "tracing",
            DISPATCH,
            "device idle while a program is handed over",
            unseen="Dispatch-bound: the host calls ops and hands programs over for {of_step}.",
        ),
        Word(
            "fallback",
            "Fallback-bound: the device idles for {of_step} while the host runs ops that XLA does not know.",
            "tracing",
            ATEN_FALLBACK,
            "device idle while an op runs on the host",
            unseen="Fallback-bound: the host runs ops that XLA does not know for {of_step}.",
        ),
        Word(
            "host",
            "Host-bound: the device idles for {of_step} while the host does other work.",
            "host",
            HOST_OTHER,
            "device idle while the host does other work",
            unseen="Host-bound: the host does something else than feed the device for {of_step}.",
        ),
        Word(
            "undecided",
            f"Undecided: the device idles for {{of_step}} while the host traces or runs other Python; {NOT_TOLD}",
            "tracing",
            HOST_OTHER,
            "device idle while the host traces or runs other Python",
            unseen="Undecided: for {of_step} the host traces or runs other Python, sleeps or waits; nothing in "
            "the trace tells these apart.",
        ),
        Word(
            "unknown",
            f"No known cause: the device idles for {{of_step}} {NOT_NAMED}.",
            "",
            UNKNOWN,
            "device idle for an unknown reason",
            unseen="No known cause: for {of_step} the host does something the trace does not name.",
        ),
        # The verdict says these by the name of what holds the step back.
        Word("gc", category="host", part=GARBAGE, stretch="device idle while Python collects"),
        Word("checkpoint", part=CHECKPOINT, stretch="device idle while the host saves a checkpoint"),
        Word(ANNOTATION, stretch="device idle inside an annotation"),
    )
}


def word_of(name: str) -> Word:
    """The verdict's word of that name, also one that this version does not know."""
    return WORDS.get(name) or Word(name)


def word_of_category(category: str) -> Word | None:
    """The word whose part the findings of a category hold up, None where there is none."""
    return next((each for each in WORDS.values() if each.category == category), None)


_BY_NAME = {each.name: each for each in PARTS}
DEVICE_PARTS = tuple(each.name for each in PARTS if each.on_device)
IDLE_PARTS = tuple(each.name for each in PARTS if not each.on_device)
NAMES = DEVICE_PARTS + IDLE_PARTS
_HOST_LOOK = ("#8C6D31", "|", "bright_yellow")
_USER_LOOK = ("#B07AA1", "-", "white")


def part_of(name: str) -> Part:
    """The part of that name. Names of no family are taken for annotations, so that any name has a title and a look."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name.startswith(HOST_PREFIX):
        what = name.removeprefix(HOST_PREFIX)
        usual = (f"Host: {what}", "device idle while the training thread does this and traces no op")
        title, meaning = HOST_KINDS.get(what, usual)
        return Part(name, title, meaning, "host", Replay.WORK, *_HOST_LOOK)
    what = name.removeprefix(USER_PREFIX)
    title, meaning = _USER_KINDS.get(what, (what, "device idle inside this annotation of yours"))
    return Part(name, title, meaning, name, Replay.WORK, *_USER_LOOK)


# How the meaning of a part begins that is idle time of the device.
_IDLE = "device idle while "


def title_of(name: str) -> str:
    """The title of a part; the user's annotations go by their own names."""
    return part_of(name).title


# Words with which titles begin that keep their capital within a sentence.
_NAMES = ("Python",)


def noun_of(name: str) -> str:
    """The title of a part as it stands within a sentence."""
    title = title_of(name)
    own = name.startswith(USER_PREFIX) and name.removeprefix(USER_PREFIX) not in _USER_KINDS
    if own:
        return f"the annotation {title!r}"
    return within_sentence(title)


def within_sentence(title: str) -> str:
    """A title as it stands within a sentence: a name that it begins with (`Python`, `JAX`) stays as it is."""
    word = title.partition(" ")[0]
    is_name = title.startswith(_NAMES) or (len(word) > 1 and word[1:] == word[1:].upper())
    return title if is_name else title[:1].lower() + title[1:]


def listed_as(name: str) -> str:
    """How a table lists a part: by its name, and what that is where tpuprof itself made the annotation."""
    own = name.startswith(USER_PREFIX) and name.removeprefix(USER_PREFIX) in _USER_KINDS
    return f"{name} ({title_of(name)})" if own else name


def meaning_of(name: str, *, sees_device: bool = True) -> str:
    """What a part is, for readers who have not seen the docs."""
    return said_of(part_of(name).meaning, sees_device=sees_device)


def said_of(words: str, *, sees_device: bool) -> str:
    """What a part or a stretch of it is; without the device's idling where the trace shows no device."""
    return words if sees_device else words.removeprefix(_IDLE)


def style_of(name: str) -> tuple[str, str]:
    """(colour, hatching) of a part in charts."""
    found = part_of(name)
    return found.colour, found.hatch


def of_activity() -> dict[str, str]:
    """The part that each host activity counts for while the device idles, by the activity's name."""
    return {activity: each.name for each in PARTS for activity in each.activities}
