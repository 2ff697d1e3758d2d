"""Instance templates, and the values of their kube-env that an autoscaler needs.

kube-env contains the secrets with which a machine joins the cluster. It is read once and only the needed values are
kept. Neither its text nor an error of the parser, which would quote it, is stored or shown.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from nodewright.spec import ProviderError
from nodewright_gce.shapes import Accelerator, Disk, Raw, convert

_KEY = "kube-env"
_VARIABLES = "AUTOSCALER_ENV_VARS"
_NEEDED = frozenset(
    (
        "node_labels",
        "node_taints",
        "kube_reserved",
        "extended_resources",
        "os",
        "os_distribution",
        "arch",
        "evictionHard",
        "autoscaling_options",
        "ephemeral_storage_local_ssd_count",
        "BLOCK_EPH_STORAGE_BOOT_DISK",
    )
)
_RESERVED_ARGUMENT = re.compile(r"--kube-reserved=([^ ]+)")
_BASE: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class _Loader(_BASE):  # type: ignore[misc]  # the SDK has no type for it
    """Makes strings, lists and maps only. As Go reads it into a map of strings, null is an empty text."""


_NULL = "tag:yaml.org,2002:null"
_Loader.add_implicit_resolver(_NULL, re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_constructor(_NULL, lambda *_: "")


class KubeEnv(msgspec.Struct, frozen=True, kw_only=True):
    """``variables``: those for the autoscaler. ``is_truncated``: a part that cannot be parsed hides later variables.

    Labels, taints and reserved resources have an older place each, which is used if the newer one is empty.
    """

    variables: dict[str, str] = {}
    is_truncated: bool = False
    is_empty: bool = True
    old_labels: str = ""
    old_taints: str = ""
    old_reserved: str | None = None

    def get(self, name: str) -> str | None:
        """Return the variable; None: it is not there."""
        return self.variables.get(name)

    def misses(self, name: str) -> bool:
        """Return whether it is unknown if the variable is set: a part that cannot be parsed comes before it."""
        return name not in self.variables and self.is_truncated


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """An instance template.

    ``trouble`` says why its kube-env cannot be read; "": it can. ``is_limited``: its machines are deleted when their run
    duration is over, as all those of flex-start (Dynamic Workload Scheduler).
    """

    name: str = ""
    machine_type: str = ""
    accelerators: tuple[Accelerator, ...] | None = None
    disks: tuple[Disk, ...] = ()
    env: KubeEnv = KubeEnv()
    trouble: str = ""
    is_limited: bool = False


def read_template(answer: Raw) -> Template:
    """Return the template in the API's JSON."""
    properties = answer.get("properties", {})
    metadata, env, trouble = properties.get("metadata"), KubeEnv(), ""
    items = metadata.get("items", ()) if metadata is not None else ()
    item = next((item for item in items if item.get("key") == _KEY), None)
    if metadata is None:
        trouble = "it has no metadata"
    elif item is not None and "value" not in item:
        trouble = "its kube-env has no value"
    elif item is not None:
        try:
            env = parse_kube_env(item["value"])
        except ValueError as error:
            trouble = str(error)
    accelerators, scheduling = properties.get("guestAccelerators"), properties.get("scheduling", {})
    return Template(
        name=answer.get("name", ""),
        machine_type=properties.get("machineType", ""),
        accelerators=convert(accelerators, tuple[Accelerator, ...]) if accelerators is not None else None,
        disks=convert(properties.get("disks", ()), tuple[Disk, ...]),
        env=env,
        trouble=trouble,
        is_limited=bool(scheduling.get("maxRunDuration")) or scheduling.get("provisioningModel") == "FLEX_START",
    )


def trim_templates(body: str) -> str:
    """Return the JSON of an answer with no more metadata than what is read here: all other items may be secrets."""
    if '"metadata"' not in body:
        return body
    try:
        content = json.loads(body)
    except ValueError:
        return ""
    _trim(content)
    return json.dumps(content)


def _trim(content: Any) -> None:
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    for part in parts:
        _trim(part)
    metadata = content.get("metadata") if isinstance(content, dict) else None
    items = metadata.get("items", ()) if isinstance(metadata, dict) else ()
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and "value" in item:
            item["value"] = _trim_env(item["value"]) if item.get("key") == _KEY else "redacted-0"


def _trim_env(text: object) -> str:
    try:
        whole = yaml.load(str(text), _Loader)  # noqa: S506 - it makes strings, lists and maps only
    except yaml.YAMLError:
        return "not: [YAML"  # it stays what it is: unreadable
    if not isinstance(whole, dict):
        return str(whole) if whole == "" else "not a map"
    kept = {key: value for key, value in whole.items() if key in (_VARIABLES, "NODE_LABELS", "NODE_TAINTS")}
    reserved = _RESERVED_ARGUMENT.search(str(whole.get("KUBELET_TEST_ARGS", "")))
    if reserved is not None:
        kept["KUBELET_TEST_ARGS"] = reserved[0]
    return str(yaml.safe_dump(kept))


def parse_kube_env(text: str) -> KubeEnv:
    """Parse a kube-env; raise ValueError whose text contains nothing of it."""
    if not text:
        return KubeEnv()
    try:
        whole = yaml.load(text, _Loader)  # noqa: S506 - it makes strings, lists and maps only
    except yaml.YAMLError:
        raise ValueError("its kube-env is not YAML") from None
    if whole is None or whole == "":
        whole = {}
    if not isinstance(whole, dict) or not all(isinstance(value, str) for value in whole.values()):
        raise ValueError("its kube-env is not a map of strings")
    variables, is_truncated = _read_variables(whole.get(_VARIABLES, ""))
    reserved = _RESERVED_ARGUMENT.search(whole.get("KUBELET_TEST_ARGS", ""))
    return KubeEnv(
        variables=variables,
        is_truncated=is_truncated,
        is_empty=False,
        old_labels=whole.get("NODE_LABELS", ""),
        old_taints=whole.get("NODE_TAINTS", ""),
        old_reserved=reserved[1] if reserved is not None else None,
    )


def parse_pairs(text: str, what: str) -> dict[str, str]:
    """Parse ``a=b,c=d``; raise ProviderError that names ``what`` it is."""
    pairs: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not equals:
            raise ProviderError(f"{what} in kube-env: '{part}' is not of the form key=value", code="badKubeEnv")
        pairs[key] = value
    return pairs


def loose_pairs(text: str | None) -> Mapping[str, str]:
    """Parse ``a=b,c=d``; return nothing if the list cannot be parsed."""
    try:
        return parse_pairs(text or "", "")
    except ProviderError:
        return {}


def _read_variables(text: str) -> tuple[dict[str, str], bool]:
    """Parse ``k=v;k=v`` up to a part without ``=``, and return whether there was one. The first of equal names counts."""
    said: dict[str, str] = {}
    if not text.strip(" "):
        return said, False
    for piece in text.split(";"):
        name, equals, value = piece.strip(" ").partition("=")
        if not equals:
            return said, True
        if name.strip(" ") in _NEEDED:
            said.setdefault(name.strip(" "), value.strip(" \"'"))
    return said, False
