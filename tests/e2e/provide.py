"""Builds what the end-to-end tests need and is not there: ``python -m tests.e2e.provide`` (needs Go)."""

import sys

from tests.e2e.binary import Unavailable, provide

if __name__ == "__main__":
    try:
        print(*provide(may_build=True), sep="\n")
    except Unavailable as reason:
        sys.exit(str(reason))
