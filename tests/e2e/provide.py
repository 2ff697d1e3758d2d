"""Builds what the end-to-end tests need and is not there: ``python -m tests.e2e.provide`` (needs Go)."""

import sys

from tests.e2e.binary import Unavailable, provide_binary, provide_kubectl
from tests.e2e.helm import provide_helm

if __name__ == "__main__":
    try:
        for provide in (provide_helm, provide_kubectl, provide_binary):
            print(provide(may_build=True))
    except Unavailable as reason:
        sys.exit(str(reason))
