"""What an object would show of itself and of all that it holds, in a log or a traceback."""

from collections.abc import Iterator, Mapping
from typing import Any


def shown(*roots: object) -> str:
    """``repr`` and ``str`` of these and of everything of nodewright's that can be reached from them."""
    todo, seen, said = list(roots), set[int](), list[str]()
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, str | bytes):
            continue
        seen.add(id(one))
        said += (repr(one), str(one))
        todo += _parts(one)
    return "\n".join(said)


def _parts(one: object) -> Iterator[Any]:
    if isinstance(one, Mapping):
        yield from one.values()
    elif isinstance(one, list | tuple | set | frozenset):
        yield from one
    elif type(one).__module__.startswith("nodewright"):
        yield from getattr(one, "__dict__", {}).values()
        yield from (getattr(one, name) for name in getattr(one, "__struct_fields__", ()))
