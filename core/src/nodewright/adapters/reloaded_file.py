"""A file of the operator that is read before each loop, again if it has changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from nodewright.model.errors import ConfigError
from nodewright.model.printable import printable
from nodewright.model.yaml_text import load_yaml

T = TypeVar("T")


class ReloadedFile(Generic[T]):
    """Gives the content of the file that ``flag`` names. While the file is bad, what was read before stays in use.

    ``parse`` gets the text and the path, and raises ConfigError. Without a file the content is ``nothing``. ``problem`` says
    what is wrong with the file; empty: nothing.
    """

    def __init__(self, flag: str, parse: Callable[[bytes, str], T], nothing: T) -> None:
        self._flag, self._parse, self._nothing = flag, parse, nothing
        self._path = ""
        self._text: bytes | None = None
        self._content = nothing
        self.problem = ""

    def read(self, path: str) -> T:
        """Return the content as it is now; an empty path means that there is no file."""
        if not path:
            self._path, self._text, self.problem, self._content = "", None, "", self._nothing
            return self._content
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            self._path, self._text = path, None
            self.problem = f"--{self._flag}: {printable(path)} cannot be read: {error.strerror}"
            return self._content
        if (path, text) != (self._path, self._text):
            self._path, self._text = path, text
            try:
                self._content, self.problem = self._parse(text, path), ""
            except ConfigError as error:
                self.problem = str(error)
        return self._content

    def demand(self) -> None:
        """Raise ConfigError if the file cannot be used."""
        if self.problem:
            raise ConfigError(self.problem)


def read_mapping(text: bytes, name: str, holding: str) -> dict[str, Any]:
    """Return the one mapping of a YAML text, empty if it has none. Raise ConfigError; ``holding`` says what it should hold."""
    documents = [part for part in load_yaml(text, name, string_keys=True) if part is not None]
    if len(documents) > 1 or not all(isinstance(part, dict) for part in documents):
        raise ConfigError(f"{name}: must hold one mapping, with {holding}")
    found: dict[str, Any] = documents[0] if documents else {}
    return found
