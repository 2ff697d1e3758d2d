"""cluster-autoscaler's chart values or Deployment, as values of our chart, with a note for each value that is not taken over.

Secrets are never copied: notes name the value of our chart that reads them from a Secret.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nodewright.cli.settings.known_flags import CA_FLAGS, KNOWN, SHORT_FORM
from nodewright.cli.settings.load import load_settings
from nodewright.cli.settings.values import SettingKind
from nodewright.model.errors import ConfigError
from nodewright.model.limits import parse_node_group_flag
from nodewright.model.printable import printable, show, suggest

# The values that both charts have, and of a mapping the keys that both have; None: all of it.
SAME: dict[str, tuple[str, ...] | None] = {
    "additionalLabels": None,
    "affinity": None,
    "autoDiscovery": ("clusterName", "tags"),
    "autoscalingGroups": None,
    "awsRegion": None,
    "cloudProvider": None,
    "containerSecurityContext": None,
    "customArgs": None,
    "deployment": ("annotations",),
    "dnsConfig": None,
    "dnsPolicy": None,
    "envFromConfigMap": None,
    "envFromSecret": None,
    "expanderPriorities": None,
    "extraEnv": None,
    "extraEnvConfigMaps": None,
    "extraEnvSecrets": None,
    "extraObjects": None,
    "extraVolumeMounts": None,
    "extraVolumes": None,
    "fullnameOverride": None,
    "hostNetwork": None,
    "image": ("pullPolicy", "pullSecrets"),
    "initContainers": None,
    "nameOverride": None,
    "nodeSelector": None,
    "podAnnotations": None,
    "podDisruptionBudget": None,
    "podLabels": None,
    "priorityClassName": None,
    "prometheusRule": ("enabled", "additionalLabels", "namespace", "interval", "rules"),
    "rbac": ("create", "additionalRules", "serviceAccount"),
    "replicaCount": None,
    "resources": None,
    "revisionHistoryLimit": None,
    "securityContext": None,
    "service": ("create", "annotations", "servicePort"),
    "serviceMonitor": (
        "enabled",
        "namespace",
        "interval",
        "selector",
        "annotations",
        "relabelings",
        "metricRelabelings",
    ),
    "tolerations": None,
    "topologySpreadConstraints": None,
    "updateStrategy": None,
}
_OWN_IMAGE = "it names cluster-autoscaler's image; the chart's own is used"
_OTHERS = {
    "image.repository": _OWN_IMAGE,
    "image.tag": _OWN_IMAGE,
    "vpa": "the chart makes no VerticalPodAutoscaler; extraObjects can hold one",
    "rbac.clusterScoped": "the role is of the cluster: nodes and pods of all namespaces are read",
    "rbac.pspEnabled": "Kubernetes has no PodSecurityPolicy any more",
    "rbac.annotations": "there are none on the roles; annotations of the identity stand in rbac.serviceAccount.annotations",
    "cloudConfigPath": "options of a provider stand in providers",
    "kubeTargetVersionOverride": "the chart asks for nothing that depends on it",
    "extraVolumeSecrets": "give the volume in extraVolumes and extraVolumeMounts",
    "secretKeyRefNameOverride": "give the variables in extraEnvSecrets",
    "priorityConfigMapAnnotations": "the ConfigMap of the priorities has none",
}
_SECRETS = {
    "awsAccessKeyID": "AWS_ACCESS_KEY_ID",
    "awsSecretAccessKey": "AWS_SECRET_ACCESS_KEY",
    "azureClientSecret": "ARM_CLIENT_SECRET",
}
_VARIABLES = {
    "azureClientID": "ARM_CLIENT_ID",
    "azureResourceGroup": "ARM_RESOURCE_GROUP",
    "azureSubscriptionID": "ARM_SUBSCRIPTION_ID",
    "azureTenantID": "ARM_TENANT_ID",
    "azureUseManagedIdentityExtension": "ARM_USE_MANAGED_IDENTITY_EXTENSION",
    "azureUseWorkloadIdentityExtension": "ARM_USE_WORKLOAD_IDENTITY_EXTENSION",
    "azureUserAssignedIdentityID": "ARM_USER_ASSIGNED_IDENTITY_ID",
    "azureVMType": "ARM_VM_TYPE",
}
_OURS = ("aws", "azure", "gce", "externalgrpc")
# Flags that our chart sets itself, and the source of each value.
_OF_THE_CHART = {
    "address": "service.servicePort",
    "namespace": "the release's namespace",
    "config": "settings",
    "kubeconfig": "the pod's own account",
}
_SECRET_NAME = re.compile(r"secret|password|token|access_?key", re.IGNORECASE)
_SECRET_TEXT = re.compile(r"""\bkind["']?\s*:\s*["']?Secret(List)?\b""")
_NUMBERED = re.compile(r"_\d+$")


class Migrated(NamedTuple):
    """Values of our chart, and a sentence for each value that was not taken over."""

    values: dict[str, Any]
    notes: tuple[str, ...]


def migrate(documents: Iterable[object], name: str) -> Migrated:
    """Return the values for cluster-autoscaler's Deployment, or for values of its chart; raise ConfigError if it is neither."""
    found = [one for one in documents if isinstance(one, dict)]
    found = [item for one in found for item in (one["items"] if isinstance(one.get("items"), list) else [one])]
    found = [one for one in found if isinstance(one, dict)]
    try:
        return _finish(_convert(found, name))
    except _WrongShape as error:
        raise ConfigError(f"{name}: {error}") from None


class _WrongShape(ValueError):
    """A value is not the list or mapping that is needed; the text names its key."""


def _convert(found: Sequence[Mapping[str, Any]], name: str) -> "_ChartDraft":
    manifests = [one for one in found if "kind" in one and "apiVersion" in one]
    if manifests:
        for one in manifests:
            container = _find_container(one)
            if container is not None:
                return _TheirDeployment(one, container).convert()
        raise ConfigError(f"{name}: holds no Deployment of cluster-autoscaler")
    if len(found) != 1:
        raise ConfigError(f"{name}: is neither one document of chart values nor a Deployment")
    known = {*SAME, *_OTHERS, *_SECRETS, *_VARIABLES, "extraArgs", "autoscalingGroupsnamePrefix"}
    if not known.intersection(found[0]):
        raise ConfigError(f"{name}: has none of the values of cluster-autoscaler's chart")
    return _convert_values(found[0])


class _ChartDraft:
    """The values and notes collected so far."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.notes: list[str] = []

    def put(self, key: str, value: Any) -> None:
        """Set a value; a dot in the key leads into a mapping."""
        home, *rest = key.split(".", 1)
        if rest:
            self.values.setdefault(home, {})[rest[0]] = value
        else:
            self.values[home] = value

    def note(self, what: str, why: str) -> None:
        self.notes.append(f"{printable(what)}: {why}")

    def take_variable(self, what: str, name: str, value: Any) -> None:
        """Take over an environment variable unless its name looks like a secret; ``what`` names it in the note."""
        if _SECRET_NAME.search(name):
            self.note(what, "looks like a secret; give it in extraEnvSecrets, from a Secret of yours")
        else:
            self.values.setdefault("extraEnv", {})[name] = value

    def take_flag(self, flag: str, value: Any) -> None:
        """Take over a flag that nodewright has, if the value can be used; otherwise add a note."""
        name = _NUMBERED.sub("", flag).replace("_", "-")
        if name in _OF_THE_CHART:
            self.note(f"--{name}", f"the chart gives it, from {_OF_THE_CHART[name]}")
            return
        if name == "v":
            self.note("--v", "nodewright logs what happens at each level; from 4 on it would log each loop, too")
            return
        if name not in KNOWN:
            self.note(f"--{name}", f"there is no such flag{suggest(name, KNOWN)}")
            return
        own = CA_FLAGS.get(name)
        if KNOWN[name].kind is SettingKind.BOOLEAN and value in ("true", "false"):
            value = value == "true"
        texts = _flag_texts(value, is_list=KNOWN[name].kind is SettingKind.LIST)
        try:
            load_settings({name: texts}, {})
        except ConfigError as error:
            if name not in SHORT_FORM:
                self.note(f"--{name}", str(error).removeprefix(f"--{name}: "))
                return
        if own is not None:
            self.note(f"--{name}", own.why)
            return
        held = self.values.setdefault("extraArgs", {})
        if name in held:
            before = held[name] if isinstance(held[name], list) else [held[name]]
            held[name] = [*before, *(value if isinstance(value, list) else [value])]
        else:
            held[name] = value


def _flag_texts(value: Any, *, is_list: bool) -> str | list[str]:
    if isinstance(value, list):
        texts = [_text(one) for one in value]
        return texts if is_list else (texts[-1] if texts else "")
    return [_text(value)] if is_list else _text(value)


def _text(value: Any) -> str:
    if value is None:
        return "true"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _convert_values(given: Mapping[str, Any]) -> _ChartDraft:
    draft = _ChartDraft()
    for key, value in given.items():
        if value in (None, "", [], {}):
            continue
        if key in SAME:
            _take_same(draft, key, value)
        elif key == "extraArgs":
            for flag, held in _mapping(value, key).items():
                draft.take_flag(str(flag), held)
        elif key == "autoscalingGroupsnamePrefix":
            specs = [_prefix_spec(one) for one in _mappings(value, key)]
            draft.values.setdefault("autoDiscovery", {}).setdefault("specs", []).extend(specs)
        elif key in _VARIABLES:
            draft.values.setdefault("extraEnv", {})[_VARIABLES[key]] = _text(value)
        elif key in _SECRETS:
            draft.note(key, f"is a secret; give {_SECRETS[key]} in extraEnvSecrets, from a Secret of yours")
        else:
            draft.note(str(key), _OTHERS.get(str(key), "the chart has no such value"))
    return draft


def _mapping(held: Any, key: str) -> Mapping[str, Any]:
    if not isinstance(held, dict):
        raise _WrongShape(f"{key}: must be a mapping, and is {show(held)}")
    return held


def _mappings(held: Any, key: str) -> list[Mapping[str, Any]]:
    if not isinstance(held, list | None):
        raise _WrongShape(f"{key}: must be a list of mappings, and is {show(held)}")
    return [_mapping(one, f"{key}[{number}]") for number, one in enumerate(held or ())]


def _without_secrets(draft: _ChartDraft, objects: Any) -> list[Any]:
    """Return the objects except Secrets and lists that hold one; add a note for each of those."""
    if not isinstance(objects, list):
        raise _WrongShape(f"extraObjects: must be a list, and is {show(objects)}")
    for number, one in enumerate(objects):
        if _is_secret(one):
            draft.note(f"extraObjects[{number}]", "holds a Secret; create it yourself, beside the chart")
    return [one for one in objects if not _is_secret(one)]


def _is_secret(one: Any) -> bool:
    """Return whether an object is a Secret or a list that holds one. It may be text, for Helm to expand."""
    if isinstance(one, str):
        return _SECRET_TEXT.search(one) is not None
    if not isinstance(one, dict):
        return False
    items = one.get("items")
    return one.get("kind") in ("Secret", "SecretList") or (isinstance(items, list) and any(map(_is_secret, items)))


def _prefix_spec(one: Mapping[str, Any]) -> str:
    return f"mig:namePrefix={one.get('name', '')},min={one.get('minSize', 0)},max={one.get('maxSize', 0)}"


def _take_same(draft: _ChartDraft, key: str, value: Any) -> None:
    parts = SAME[key]
    if key == "extraEnv":
        for name, held in _mapping(value, key).items():
            draft.take_variable(f"{key}.{name}", str(name), held)
        return
    if parts is None:
        draft.put(key, _without_secrets(draft, value) if key == "extraObjects" else value)
        return
    for part, held in _mapping(value, key).items():
        if part in parts:
            draft.put(f"{key}.{part}", held)
        elif held not in (None, "", [], {}, False):
            draft.note(f"{key}.{part}", _OTHERS.get(f"{key}.{part}", "the chart has no such value"))


def _find_container(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the container of a Deployment that runs cluster-autoscaler."""
    if manifest.get("kind") != "Deployment":
        return None
    for one in _mappings(_at(manifest, "spec", "template", "spec").get("containers"), "containers"):
        words = [*_words(one.get("command")), *_words(one.get("args"))]
        if "cluster-autoscaler" in str(one.get("image", "")) or any("cluster-autoscaler" in word for word in words[:1]):
            held: Mapping[str, Any] = one
            return held
    return None


def _at(held: Any, *path: str) -> Mapping[str, Any]:
    for step in path:
        held = held.get(step) if isinstance(held, dict) else None
    return held if isinstance(held, dict) else {}


def _words(held: Any) -> list[str]:
    return [str(one) for one in held] if isinstance(held, list) else []


class _TheirDeployment:
    """One Deployment of cluster-autoscaler and its container."""

    def __init__(self, manifest: Mapping[str, Any], container: Mapping[str, Any]) -> None:
        self._spec = _at(manifest, "spec")
        self._template = _at(manifest, "spec", "template")
        self._pod = _at(manifest, "spec", "template", "spec")
        self._container = container
        self._draft = _ChartDraft()

    def convert(self) -> _ChartDraft:
        self._take_flags()
        self._take_variables()
        self._take_pod()
        return self._draft

    def _take_flags(self) -> None:
        draft = self._draft
        for flag, value in _read_flags([*_words(self._container.get("command")), *_words(self._container.get("args"))]):
            if flag == "cloud-provider":
                draft.put("cloudProvider", value)
            elif flag == "nodes" and isinstance(value, str):
                group = parse_node_group_flag(value)
                entry = {"name": group.name, "minSize": group.min_size, "maxSize": group.max_size}
                draft.values.setdefault("autoscalingGroups", []).append(entry)
            elif flag == "node-group-auto-discovery":
                draft.values.setdefault("autoDiscovery", {}).setdefault("specs", []).append(value)
            else:
                draft.take_flag(flag, value)

    def _take_variables(self) -> None:
        for one in _mappings(self._container.get("env"), "env"):
            name, source = str(one.get("name", "")), _at(one, "valueFrom")
            if name == "AWS_REGION" and "value" in one:
                self._draft.put("awsRegion", one["value"])
            elif "value" in one:
                self._draft.take_variable(f"env {name}", name, str(one["value"]))
            elif "secretKeyRef" in source or "configMapKeyRef" in source:
                kind = "secretKeyRef" if "secretKeyRef" in source else "configMapKeyRef"
                given = _mapping(source[kind], f"env {name}: {kind}")
                held = {key: given[key] for key in ("name", "key") if key in given}
                self._draft.put(f"{'extraEnvSecrets' if kind == 'secretKeyRef' else 'extraEnvConfigMaps'}.{name}", held)
            else:
                self._draft.note(f"env {name}", "the chart has no value for its source")
        for one in _mappings(self._container.get("envFrom"), "envFrom"):
            for kind, key in (("secretRef", "envFromSecret"), ("configMapRef", "envFromConfigMap")):
                if kind in one:
                    self._draft.put(key, _at(one, kind).get("name", ""))

    def _take_pod(self) -> None:
        draft, pod = self._draft, self._pod
        if self._spec.get("replicas") not in (None, 1):
            draft.put("replicaCount", self._spec["replicas"])
        for key in (
            "nodeSelector",
            "tolerations",
            "affinity",
            "topologySpreadConstraints",
            "priorityClassName",
            "hostNetwork",
        ):
            if pod.get(key):
                draft.put(key, pod[key])
        if pod.get("dnsPolicy", "ClusterFirst") != "ClusterFirst":
            draft.put("dnsPolicy", pod["dnsPolicy"])
        if self._container.get("resources"):
            draft.put("resources", self._container["resources"])
        annotations = _at(self._template, "metadata", "annotations")
        ours = {
            key: held
            for key, held in annotations.items()
            if "prometheus" not in str(key) and "safe-to-evict" not in str(key)
        }
        if ours:
            draft.put("podAnnotations", ours)
        account = pod.get("serviceAccountName")
        if account and account != "default":
            draft.put("rbac.serviceAccount", {"create": False, "name": account})
            draft.note(
                f"serviceAccountName {account}",
                "is kept, for its identity in the cloud; the chart binds its own role to it",
            )
        draft.note(f"image {self._container.get('image', '')}", _OWN_IMAGE)
        for one in _mappings(pod.get("volumes"), "volumes"):
            if "ssl-certs" not in str(one.get("name")):
                draft.note(
                    f"volume {one.get('name')}", "give it in extraVolumes and extraVolumeMounts if a provider needs it"
                )


def _read_flags(words: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield the flags of a command line in Go's forms: ``--flag``, ``--flag=value`` and ``--flag value``."""
    waiting = ""
    for word in words:
        if word.startswith("-"):
            if waiting:
                yield waiting, True
            flag, equals, value = word.lstrip("-").partition("=")
            waiting = "" if equals else flag
            if equals:
                yield flag, value
        elif waiting:
            yield waiting, word
            waiting = ""
    if waiting:
        yield waiting, True


def _finish(draft: _ChartDraft) -> Migrated:
    """Add the notes that depend on several values."""
    values = draft.values
    provider = str(values.get("cloudProvider", ""))
    if not provider:
        draft.note("cloudProvider", "is not given; cluster-autoscaler's default is gce, nodewright has none")
    elif provider not in _OURS:
        draft.note(
            f"cloudProvider {provider}",
            "nodewright has no plugin of its own for it; externalgrpc asks a provider's server, and docs/plugin-guide.md tells how to write one",
        )
    if provider == "gce" and _at(values, "autoDiscovery").get("clusterName"):
        draft.note("autoDiscovery.clusterName", "is for aws and azure; give autoDiscovery.specs")
    return Migrated({key: values[key] for key in sorted(values)}, tuple(draft.notes))
