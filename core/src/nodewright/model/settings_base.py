"""The common base of the sections of settings: the kinds of their values, and the description of a setting."""

from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

# Seconds here, and Go-style text (``10m``, ``1h30m``) outside.
Duration = Annotated[float, Meta(ge=0, extra={"duration": True})]
Ratio = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0)]

# Help.ca of a setting that cluster-autoscaler has under the same name.
SAME = "same"


class Help(NamedTuple):
    """The description of one setting, in its ``Annotated`` type. Every page, schema and ``--help`` is made from it.

    The first sentence of ``text`` is what ``--help`` shows. ``raised`` says what a higher value changes, ``unit`` what a
    number counts. ``ca`` is the name of cluster-autoscaler's flag: SAME, or another name; empty if it has none.
    """

    text: str
    raised: str = ""
    unit: str = ""
    ca: str = SAME

    @property
    def summary(self) -> str:
        """Return the first sentence of ``text``."""
        return self.text.partition(". ")[0].rstrip(".") + "."


class Section(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Base of the groups of settings."""
