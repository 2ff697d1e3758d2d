"""What a cloud says, made fit to be logged, sent and shown to everybody who may read events."""

import re

_HIDDEN = "***"
_NAMES = "token|secret|passw|signature|credential|apikey|api[-_]key"
_IS = r"""(?:=["']?|["'] ?: ?["'])"""
# Names and passwords in URLs; what is assigned to a name that sounds secret; what an Authorization header holds.
_SECRETS = (
    (re.compile(r"(?<=://)[^/\s@]{1,500}@"), f"{_HIDDEN}@"),
    (re.compile(rf"(?i)\b((?:[\w.-]{{0,40}}(?:{_NAMES})[\w.-]{{0,40}}|sig){_IS})[^&\s\"'<>,;]+"), rf"\1{_HIDDEN}"),
    (re.compile(r"(?i)\b(authorization: *(?:[a-z]+ +)?|bearer +)[^\s\"',]+"), rf"\1{_HIDDEN}"),
)


def writable(text: str) -> str:
    """As it can be saved and sent: JSON of a cloud may hold half a character, of which UTF-8 knows nothing."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def tellable(text: str) -> str:
    """Writable, and without what looks like a secret: SDKs put the URLs and headers of requests into their errors."""
    text = writable(text)
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text
