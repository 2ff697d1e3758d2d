"""The public contract is pinned: a change of a hook or a value is seen in review, in spec_signatures.txt."""

import inspect
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import msgspec

from nodewright import spec
from nodewright.model.settings_base import Help

PINNED = Path(__file__).with_name("spec_signatures.txt")


def signatures() -> str:
    """Every hook with its arguments, and every value with its fields."""
    lines = []
    for protocol in (spec.RequiredHooks, *spec.CAPABILITY_HOOKS.values()):
        hooks = [(name, member) for name, member in vars(protocol).items() if inspect.isfunction(member)]
        lines += [f"{protocol.__name__}.{name}{inspect.signature(member)}" for name, member in hooks if name[0] != "_"]
    for name in spec.__all__:
        value = getattr(spec, name)
        if inspect.isclass(value) and issubclass(value, msgspec.Struct):
            lines.append(f"{name}({', '.join(fields_of(value))})")
    lines += [f"exports {name}" for name in sorted(spec.__all__)]
    return "\n".join(lines) + "\n"


def fields_of(value: type[msgspec.Struct]) -> list[str]:
    """``name: type`` of every field, ``name?: type`` if it may be left out."""
    types = {name: kind for base in reversed(value.__mro__) for name, kind in inspect.get_annotations(base).items()}
    return [
        f"{field.name}{'' if field.required else '?'}: {inspect.formatannotation(_without_help(types[field.name]))}"
        for field in msgspec.structs.fields(value)
    ]


def _without_help(kind: Any) -> Any:
    """Return a type without its description: another text is no other contract."""
    described = get_origin(kind) is Annotated and any(isinstance(note, Help) for note in get_args(kind))
    return get_args(kind)[0] if described else kind


def test_hooks_and_values_are_as_pinned() -> None:
    now = signatures()
    assert now == PINNED.read_text(), f"the public contract changed; if that is meant, {PINNED.name} becomes:\n{now}"
