"""What the groups of settings have in common, and the kinds of their values."""

from typing import Annotated

import msgspec
from msgspec import Meta

# Seconds here, and Go-style text (``10m``, ``1h30m``) outside.
Duration = Annotated[float, Meta(ge=0, extra={"duration": True})]
Ratio = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0)]


class Section(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Base of the groups of settings."""
