"""CEL selectors of device classes and requests, evaluated by ``cel-expr-python`` (the extra ``nodewright[dra]``).

Opaque values do not pass through the library, so a quantity or a version is a map with one key that no attribute has. The
functions that Kubernetes adds to CEL are declared here; the library brings the standard functions, strings, optional
values and ``cel.bind``.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from nodewright.model.devices import DeviceAttribute
from nodewright.model.quantity import NANO, Quantity
from nodewright.predicates.dra.allocator import RefusalCode, SearchError
from nodewright.predicates.dra.pools import Candidate

try:
    from cel_expr_python import cel
    from cel_expr_python.ext.ext_bindings import ExtBindings
    from cel_expr_python.ext.ext_optional import ExtOptional
    from cel_expr_python.ext.ext_strings import ExtStrings
except ImportError:  # the extra is not installed
    cel = None

NO_CEL = "the claim has CEL selectors, which need the extra nodewright[dra]"
# The API server refuses longer expressions; it also bounds their estimated cost.
_MAX_LENGTH = 10 * 1024
_MAX_KNOWN = 2**16
_QUANTITY, _VERSION, _IP, _CIDR = "#quantity", "#version", "#ip", "#cidr"
_LITERAL = re.compile(r"""["']([^"'\\]+)["']""")
# Uses of attributes and capacities that name what they read. Any other use may read all of them.
_NAMED_USE = re.compile(
    r"""device\.(?:attributes|capacity)\[["'][^"'\\]+["']\](?:\.\??[A-Za-z_]\w*\b(?!\s*\()|\[["'][^"'\\]+["']\])"""
    r"""|["'][^"'\\]+["']\s+in\s+device\.(?:attributes|capacity)\[["'][^"'\\]+["']\](?![.\[])"""
)
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?"
)


def is_available() -> bool:
    """Return whether the extra is installed."""
    return cel is not None


class Selectors:
    """Evaluates selectors, each once for all devices that are equal in what the expression reads."""

    def __init__(self) -> None:
        self.evaluations = 0
        self._programs: dict[str, tuple[Any, re.Pattern[str] | None]] = {}
        self._known: dict[object, bool | str] = {}
        self._by_device: dict[tuple[int, str], tuple[object, bool | str]] = {}

    def __call__(self, candidate: Candidate, expression: str) -> bool:
        key = (id(candidate.device), expression)
        held = self._by_device.get(key)
        if held is not None and held[0] is candidate.device:
            verdict = held[1]
        else:
            verdict = self._judge(candidate, expression)
            if len(self._by_device) >= _MAX_KNOWN:
                self._by_device.clear()
            self._by_device[key] = (candidate.device, verdict)
        if isinstance(verdict, str):
            raise SearchError(RefusalCode.CEL_ERROR, f"CEL runtime error: {verdict}")
        return verdict

    def _judge(self, candidate: Candidate, expression: str) -> bool | str:
        if cel is None:
            raise SearchError(RefusalCode.NO_CEL, NO_CEL, is_error=False)
        program, names = self._program(expression)
        if isinstance(program, str):
            return program
        device = candidate.device
        attributes, offered = device.attributes, device.capacity
        if names is not None:
            attributes = {name: value for name, value in attributes.items() if names.fullmatch(name.rpartition("/")[2])}
            offered = {name: value for name, value in offered.items() if names.fullmatch(name.rpartition("/")[2])}
        driver = candidate.id[0]
        amounts = {name: held.value.nano for name, held in offered.items()}
        key = (expression, driver, device.allow_multiple_allocations, msgspec.json.encode((attributes, amounts)))
        found = self._known.get(key)
        if found is None:
            self.evaluations += 1
            values = {name: _native(value) for name, value in attributes.items()}
            quantities = {name: {_QUANTITY: str(amount)} for name, amount in amounts.items()}
            found = _evaluate(
                program,
                {
                    "driver": driver,
                    "allowMultipleAllocations": device.allow_multiple_allocations,
                    "attributes": _by_domain(values, driver, expression),
                    "capacity": _by_domain(quantities, driver, expression),
                },
            )
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def _program(self, expression: str) -> tuple[Any, re.Pattern[str] | None]:
        held = self._programs.get(expression)
        if held is None:
            held = self._programs[expression] = _compile(expression), _names_read(expression)
        return held


def _compile(expression: str) -> Any:
    """Return a program, or a text that says why there is none."""
    if len(expression) > _MAX_LENGTH:
        return f"the expression is longer than {_MAX_LENGTH} characters"
    try:
        return _environment().compile(expression)
    except Exception as error:  # noqa: BLE001  # the library raises RuntimeError and ValueError
        return f"compilation failed: {error}"


def _evaluate(program: Any, device: Mapping[str, Any]) -> bool | str:
    try:
        result = program.eval(data={"device": device})
        kind = result.type()
        if kind == cel.Type.BOOL:
            return bool(result.value())
        return str(result.value()) if kind == cel.Type.ERROR else f"the result is {kind}, not a boolean"
    except Exception as error:  # noqa: BLE001  # the library raises RuntimeError and ValueError
        return str(error)


def _names_read(expression: str) -> re.Pattern[str] | None:
    """Return a pattern of the attributes and capacities that an expression may read; None: any."""
    rest = _NAMED_USE.sub("", expression)
    if re.search(r"\bdevice\s*(?!\.(?:driver|allowMultipleAllocations)\b)(?:\W|$)", rest):
        return None
    names = {part for use in _NAMED_USE.findall(expression) for part in re.findall(r"\w[\w-]*", use)}
    return re.compile("|".join(map(re.escape, names)) or r"(?!)")


def _by_domain(values: Mapping[str, Any], driver: str, expression: str) -> dict[str, dict[str, Any]]:
    """Return values by domain and name. A domain without values is an empty map, as in kube-scheduler."""
    found: dict[str, dict[str, Any]] = {domain: {} for domain in _LITERAL.findall(expression)}
    for name, value in values.items():
        domain, slash, bare = name.partition("/")
        found.setdefault(domain if slash else driver, {})[bare if slash else name] = value
    return found


def _native(attribute: DeviceAttribute) -> object:
    if attribute.version is not None:
        return _version(attribute.version)
    held = (attribute.string, attribute.integer, attribute.boolean)
    return next((value for value in held if value is not None), None)


def _environment() -> Any:
    global _ENVIRONMENT  # noqa: PLW0603  # building it costs milliseconds, and it never changes
    if _ENVIRONMENT is None:
        functions = [cel.FunctionDecl(name, overloads) for name, overloads in _overloads().items()]
        _ENVIRONMENT = cel.NewEnv(
            variables={"device": cel.Type.MAP},
            extensions=[ExtOptional(), ExtStrings(), ExtBindings()],
            functions=functions,
        )
    return _ENVIRONMENT


_ENVIRONMENT: Any = None


def _overloads() -> dict[str, list[Any]]:
    kinds = cel.Type
    text, flag, whole, real, opaque, many = kinds.STRING, kinds.BOOL, kinds.INT, kinds.DOUBLE, kinds.MAP, kinds.LIST
    found: dict[str, list[Any]] = {}

    def add(name: str, result: Any, parameters: list[Any], call: Callable[..., Any], *, member: bool = True) -> None:
        held = found.setdefault(name, [])
        overload = f"k8s_{name.replace('.', '_')}_{len(held)}"
        held.append(cel.Overload(overload, return_type=result, parameters=parameters, is_member=member, impl=call))

    add("quantity", opaque, [text], lambda value: _of_nano(Quantity.of(value).nano), member=False)
    add("isQuantity", flag, [text], lambda value: _works(Quantity.of, value), member=False)
    add("semver", opaque, [text], _version, member=False)
    add("semver", opaque, [text, flag], _version, member=False)
    add("isSemver", flag, [text], lambda value: _works(_version, value), member=False)
    add("isSemver", flag, [text, flag], lambda value, tolerant: _works(_version, value, tolerant), member=False)
    add("compareTo", whole, [opaque, opaque], _compare)
    add("isLessThan", flag, [opaque, opaque], lambda one, other: _compare(one, other) < 0)
    add("isGreaterThan", flag, [opaque, opaque], lambda one, other: _compare(one, other) > 0)
    add("sign", whole, [opaque], lambda one: (_nano(one) > 0) - (_nano(one) < 0))
    add("isInteger", flag, [opaque], lambda one: _nano(one) % NANO == 0)
    add("asInteger", whole, [opaque], _as_integer)
    add("asApproximateFloat", real, [opaque], lambda one: _nano(one) / NANO)
    for other in (opaque, whole):
        add("add", opaque, [opaque, other], lambda one, more: _of_nano(_nano(one) + _amount(more)))
        add("sub", opaque, [opaque, other], lambda one, less: _of_nano(_nano(one) - _amount(less)))
    for place, part in enumerate(("major", "minor", "patch")):
        add(part, whole, [opaque], lambda one, place=place: _parts(one)[0][place])
    add("find", text, [text, text], lambda value, pattern: (_search(pattern, value) or [""])[0])
    add("findAll", many, [text, text], lambda value, pattern: _search(pattern, value))
    add(
        "findAll",
        many,
        [text, text, whole],
        lambda value, pattern, most: _search(pattern, value)[: most if most >= 0 else None],
    )
    add("sets.contains", flag, [many, many], lambda one, other: all(x in list(one) for x in other), member=False)
    add("sets.intersects", flag, [many, many], lambda one, other: any(x in list(one) for x in other), member=False)
    add(
        "sets.equivalent", flag, [many, many],
        lambda one, other: all(x in list(one) for x in other) and all(x in list(other) for x in one), member=False,
    )  # fmt: skip
    add("ip", opaque, [text], lambda value: {_IP: str(ipaddress.ip_address(value))}, member=False)
    add("isIP", flag, [text], lambda value: _works(ipaddress.ip_address, value), member=False)
    add("family", whole, [opaque], lambda one: ipaddress.ip_address(one[_IP]).version)
    add("cidr", opaque, [text], lambda value: {_CIDR: str(ipaddress.ip_network(value, strict=False))}, member=False)
    add("isCIDR", flag, [text], lambda value: _works(ipaddress.ip_network, value, False), member=False)
    for other in (opaque, text):
        add("containsIP", flag, [opaque, other], _contains_ip)
    return found


def _works(call: Callable[..., Any], *arguments: Any) -> bool:
    try:
        call(*arguments)
    except ValueError:
        return False
    return True


def _of_nano(nano: int) -> dict[str, str]:
    return {_QUANTITY: str(nano)}


def _nano(value: Any) -> int:
    return int(value[_QUANTITY])


def _amount(value: Any) -> int:
    return value * NANO if isinstance(value, int) else _nano(value)


def _as_integer(value: Any) -> int:
    if _nano(value) % NANO:
        raise ValueError("cannot convert value to integer")
    return _nano(value) // NANO


def _version(text: str, tolerant: bool = False) -> dict[str, str]:
    """Return a semantic version without its build. ``tolerant``: accept a leading v, missing parts and leading zeros."""
    if tolerant:
        core, dash, rest = text.strip().removeprefix("v").partition("-")
        parts = [part.lstrip("0") or "0" for part in core.split(".")]
        text = ".".join([*parts, "0", "0"][: max(3, len(parts))]) + dash + rest
    found = _SEMVER.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a semantic version")
    number = ".".join(found.group(1, 2, 3))
    return {_VERSION: f"{number}-{found[4]}" if found[4] else number}


def _parts(value: Any) -> tuple[list[int], list[tuple[int, int, str]]]:
    """Return the numbers of a version, and its pre-release in a form that sorts."""
    number, _, early = value[_VERSION].partition("-")
    ids = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in early.split(".")] if early else []
    return [int(part) for part in number.split(".")], ids


def _compare(one: Any, other: Any) -> int:
    if _QUANTITY in one:
        first, second = _nano(one), _nano(other)
        return (first > second) - (first < second)
    (numbers, early), (others, late) = _parts(one), _parts(other)
    # A version without a pre-release is greater than one with.
    left, right = (numbers, not early, early), (others, not late, late)
    return (left > right) - (left < right)


def _search(pattern: str, value: str) -> list[str]:
    return [found.group() for found in re.finditer(pattern, value)]


def _contains_ip(network: Any, address: Any) -> bool:
    text = address if isinstance(address, str) else address[_IP]
    return ipaddress.ip_address(text) in ipaddress.ip_network(network[_CIDR])
