"""Output that nobody reads any more, as in ``nodewright plan … | head``."""

import os
import sys


class ReaderGone(Exception):
    """The reader of our output went away: the command ends, quietly."""


def abandon_output() -> None:
    """Keep the interpreter from complaining when it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
