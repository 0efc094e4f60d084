"""The same without the flags."""

from common import run
from nested import nested

run(lambda _: nested())
