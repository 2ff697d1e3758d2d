"""End quietly when the reader of our output has closed it, as in ``nodewright plan … | head``."""

import os
import sys


class ReaderGone(Exception):
    """The reader of our output closed it: the command ends without a message."""


def abandon_output() -> None:
    """Point stdout at the null device, so that the interpreter reports no error when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
