"""A debugging session's flags were left on: torch_xla collects Python frames at every op."""

import os

os.environ["XLA_IR_DEBUG"] = "1"
os.environ["XLA_HLO_DEBUG"] = "1"

from common import run
from nested import nested

run(lambda _: nested())
