"""Finds the fields in XML and HTML and replaces their texts. What is not well-formed is read as far as it has elements."""

import html
import re
from collections.abc import Callable, Mapping, Sequence

_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[(?P<data>.*?)(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)|<![^>]*>"
    r"|<(?P<end>/?)(?P<name>[A-Za-z_][\w.:-]*)(?P<rest>(?:[^<>\"']|\"[^\"]*\"|'[^']*')*?)(?P<empty>/?)>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"(?P<start>(?P<name>[\w.:-]+)\s*=\s*)(?P<quote>[\"'])(?P<text>.*?)(?P=quote)", re.DOTALL)
_VALUE = re.compile(r"(?P<stem>.*)values?")
# Elements of HTML that have no end.
_EMPTY = frozenset(("br", "hr", "img", "input", "link", "meta"))

# Takes a field's name, its text and whether the text is a secret, and returns the text to write.
Clean = Callable[[str, str, bool], str]


class _Element:
    def __init__(self, name: str, attributes: Mapping[str, str], parent: "_Element | None") -> None:
        self.name = name.rpartition(":")[2]
        self.attributes = attributes
        self.parent = parent
        self.fields = dict(attributes)
        self.has_children = False
        self.is_secret = False
        self.text: _Text | None = None

    def settle(self, is_secret: Callable[[str], bool]) -> None:
        """Decide whether the texts are secrets. All fields beside this one are known, and the parent is settled."""
        if self.parent is None:
            return
        named = [self.name, *(self.attributes[one] for one in ("key", "name") if one in self.attributes)]
        named += paired_names(self.parent.fields, self.name)
        self.is_secret = self.parent.is_secret or any(is_secret(one) for one in named)


class _Text:
    """Characters of one element, without the markup between them."""

    def __init__(self, element: _Element) -> None:
        self.element = element
        self.said = ""


class _Tag:
    """The start of an element."""

    def __init__(self, element: _Element, written: str) -> None:
        self.element = element
        self.written = written


def paired_names(fields: Mapping[str, str], name: str) -> list[str]:
    """Return what the fields beside a value call it: in ``Key=a Value=b`` the name of b is a, in any order."""
    value = _VALUE.fullmatch(_plain(name))
    wanted = () if value is None else (f"{value['stem']}key", f"{value['stem']}name")
    return [text for one, text in fields.items() if _plain(one) in wanted]


def is_markup(body: str) -> bool:
    """Return whether a body begins with markup."""
    return _MARKUP.match(body.lstrip()) is not None


def clean_markup(body: str, is_secret: Callable[[str], bool], clean: Clean, other: Callable[[str], str]) -> str:
    """Return the body with clean texts and attributes; ``other`` cleans comments and the like."""
    elements, pieces = _read(body)
    for element in elements:
        element.settle(is_secret)
    written = []
    for piece in pieces:
        if isinstance(piece, _Text):
            text = clean(piece.element.name, piece.said, piece.element.is_secret) if piece.said.strip() else piece.said
            written.append(html.escape(text, quote=False))
        elif isinstance(piece, _Tag):
            written.append(_clean_tag(piece, is_secret, clean))
        else:
            written.append(other(piece))
    return "".join(written)


def _read(body: str) -> tuple[Sequence[_Element], Sequence["_Text | _Tag | str"]]:
    """Return the elements, parents first, and the pieces of the body in its order."""
    reader, at = _Reader(), 0
    for match in _MARKUP.finditer(body):
        reader.say(html.unescape(body[at : match.start()]))
        at = match.end()
        if match["data"] is not None:
            reader.say(match["data"])
        elif match["name"] is None or match["end"]:
            reader.pass_by(match)
        else:
            reader.start(match)
    reader.say(html.unescape(body[at:]))
    for element in reader.elements:
        if element.parent is not None and element.text is not None and not element.has_children:
            element.parent.fields.setdefault(element.name.lower(), element.text.said.strip())
    return reader.elements, reader.pieces


class _Reader:
    """Puts each piece of a body into the element in which it stands."""

    def __init__(self) -> None:
        self._current = _Element("", {}, None)
        self.elements = [self._current]
        self.pieces: list[_Text | _Tag | str] = []

    def say(self, text: str) -> None:
        """Add characters to the current element. Those before and after a comment are one text."""
        current = self._current
        if text and current.text is None:
            current.text = _Text(current)
            self.pieces.append(current.text)
        if current.text is not None:
            current.text.said += text

    def start(self, match: re.Match[str]) -> None:
        found = {one["name"].lower(): html.unescape(one["text"]) for one in _ATTRIBUTE.finditer(match["rest"])}
        self._current.has_children, self._current.text = True, None
        element = _Element(match["name"], found, self._current)
        self.elements.append(element)
        self.pieces.append(_Tag(element, match[0]))
        if not match["empty"] and element.name.lower() not in _EMPTY:
            self._current = element

    def pass_by(self, match: re.Match[str]) -> None:
        """Add an end of an element, a comment or a declaration."""
        self.pieces.append(match[0])
        if match["name"] is not None:
            self._current = _close(self._current, match["name"].rpartition(":")[2])
        elif not match[0].startswith("<!--"):
            self._current.text = None


def _close(current: _Element, name: str) -> _Element:
    """Return the element that goes on after this end. The end of an element that is not open changes nothing."""
    ended: _Element | None = current
    while ended is not None and ended.name != name:
        ended = ended.parent
    return current if ended is None or ended.parent is None else ended.parent


def _clean_tag(tag: _Tag, is_secret: Callable[[str], bool], clean: Clean) -> str:
    def cleaned(match: re.Match[str]) -> str:
        name, element = match["name"].rpartition(":")[2], tag.element
        if match["name"].lower().startswith("xmlns"):
            return match[0]
        paired = paired_names(element.attributes, name)
        secret = any(is_secret(one) for one in (name, *paired)) or (
            element.is_secret and _VALUE.fullmatch(_plain(name)) is not None
        )
        return f'{match["start"]}"{html.escape(clean(name, html.unescape(match["text"]), secret))}"'

    return _ATTRIBUTE.sub(cleaned, tag.written)


def _plain(name: str) -> str:
    return re.sub(r"[-_.:]", "", name.lower())
