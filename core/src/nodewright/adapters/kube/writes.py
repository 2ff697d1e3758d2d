"""Writes to a real API server: edits of nodes, evictions, and the status of the objects that nodewright serves."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_exponential

from nodewright.actuation.ports import Eviction, EvictionAnswer, GangView, NodeView
from nodewright.adapters.kube.api import MERGE_PATCH, Api, ApiError, Request, find, get
from nodewright.adapters.kube.resources import Resource, object_path, read_pages
from nodewright.model.capacity_buffer import KIND, CapacityBuffer
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.gang import PodGroups
from nodewright.model.meta import Condition, ObjectMeta
from nodewright.model.node import Node
from nodewright.model.objects import KINDS
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import (
    ACCEPTED,
    BOOKING_EXPIRED,
    CAPACITY_AVAILABLE,
    CAPACITY_REVOKED,
    FAILED,
    PROVISIONED,
    ProvisioningRequest,
)
from nodewright.snapshot.context import Workloads

APPLY_PATCH = "application/apply-patch+yaml"
# The API server records under this name which fields are ours; Kueue expects cluster-autoscaler's.
FIELD_MANAGER = "cluster-autoscaler"
_KIND = "ProvisioningRequest"
_OURS = frozenset({ACCEPTED, PROVISIONED, CAPACITY_AVAILABLE, FAILED, BOOKING_EXPIRED, CAPACITY_REVOKED})
# Seconds for which an edit is tried again after a conflict with another writer.
_CONFLICT_SECONDS = 5.0
_CONFLICT_WAIT = 0.05
# The API server's text for a pod that two budgets cover. It uses status 500, and a retry does not help.
_TWO_BUDGETS = "more than one PodDisruptionBudget"
# Returns the controllers and disruption budgets as they are known now.
FindWorkloads = Callable[[], Workloads]
# Returns the PodGroups as they are known now.
FindPodGroups = Callable[[], PodGroups]


class KubeWrites:
    """Implements ClusterWrites."""

    def __init__(self, api: Api, find_workloads: FindWorkloads, find_pod_groups: FindPodGroups = PodGroups) -> None:
        self._api = api
        self._find_workloads = find_workloads
        self._find_pod_groups = find_pod_groups
        self._nodes: Resource[Node] = Resource("Node")
        self._pods: Resource[Pod] = Resource("Pod")

    def get_node_view(self, node: str) -> NodeView:
        """Read a node and its pods from the API server, not from a cache."""
        found = self._read_node(node)
        if found is None:
            return NodeView(node=None)
        raw = get(self._api, self._pods.path, {"fieldSelector": f"spec.nodeName={node}"})
        pods = tuple(pod for pod in self._pods.decode_page(raw).items if not pod.is_terminal)
        return NodeView(node=found, pods=pods, workloads=self._find_workloads())

    def get_gang_view(self, namespace: str) -> GangView:
        """Read the pods of a namespace from the API server, not from a cache."""
        own: Resource[Pod] = Resource("Pod", namespace=namespace)
        pods = tuple(pod for page in read_pages(self._api, own) for pod in page.items if not pod.is_terminal)
        return GangView(pods=pods, groups=self._find_pod_groups())

    def read_pod(self, pod: Pod) -> Pod | None:
        """Read this very pod by name, past every cache, those of the API server too; None if there is none any more."""
        raw = find(self._api, _pod_path(pod))
        found = self._pods.decode(raw) if raw is not None else None
        return found if found is not None and found.metadata.uid == pod.metadata.uid else None

    def list_nodes(self) -> Iterator[Node]:
        """Yield every node of one consistent list, not from a cache.

        Without a resource version the API server reads the first page from etcd; the other pages have the same version.
        """
        for page in read_pages(self._api, self._nodes):
            yield from page.items

    def edit_node(self, name: str, edit: Callable[[Node], Node]) -> Node | None:
        """See ClusterWrites. Only the fields that ``edit`` changes are written; without a change nothing is sent."""
        retrying = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, ApiError) and error.is_conflict),
            wait=wait_exponential(_CONFLICT_WAIT, max=1.0),
            stop=stop_after_delay(_CONFLICT_SECONDS),
            reraise=True,
        )
        return retrying(self._edit_once, name, edit)

    def evict(self, pod: Pod, grace_seconds: int) -> Eviction:
        """Ask for the eviction of this very pod: a later one of the same name is not evicted."""
        meta = pod.metadata
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": _delete_options(pod, grace_seconds),
        }
        return self._end_pod("POST", f"{_pod_path(pod)}/eviction", body)

    def delete_pod(self, pod: Pod, grace_seconds: int) -> Eviction:
        """Delete this very pod; see ClusterWrites."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **_delete_options(pod, grace_seconds)}
        return self._end_pod("DELETE", _pod_path(pod), body)

    def _end_pod(self, method: str, path: str, body: Mapping[str, Any]) -> Eviction:
        try:
            self._api.send(Request(method=method, path=path, body=msgspec.json.encode(body)))
        except ApiError as error:
            return _refusal(error)
        return Eviction(answer=EvictionAnswer.ACCEPTED)

    def write_conditions(
        self,
        request: ProvisioningRequest,
        conditions: Sequence[Condition],  # noqa: ARG002 - server-side apply removes fields that are left out, so all of ours are sent
        *,
        is_apply: bool,
    ) -> None:
        """See ClusterWrites. A newer request of the same name is not written: its uid differs."""
        meta = request.metadata
        held = request.status.conditions
        listed = [condition_manifest(one) for one in held if not is_apply or one.type in _OURS]
        identity: dict[str, Any] = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
        body: dict[str, Any] = {"metadata": identity, "status": {"conditions": listed}}
        if is_apply and request.own_details:
            body["status"]["provisioningClassDetails"] = request.own_details
        patch_status(self._api, _KIND, meta, body, is_apply=is_apply)

    def delete_request(self, request: ProvisioningRequest) -> None:
        """See ClusterWrites."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": request.metadata.uid}}
        body = msgspec.json.encode(options)
        try:
            self._api.send(Request(method="DELETE", path=object_path(_KIND, request.metadata), body=body))
        except ApiError as error:
            if not (error.is_missing or error.is_conflict):
                raise

    def write_buffer_status(self, buffer: CapacityBuffer) -> None:
        """See ClusterWrites. A newer buffer of the same name is not written: its uid differs.

        Fields that the status no longer has are removed, also those that another controller wrote.
        """
        meta, status = buffer.metadata, buffer.status
        reference = status.pod_template_ref
        fields: dict[str, Any] = {
            "podTemplateRef": {"name": reference.name} if reference is not None else None,
            "replicas": status.replicas,
            "podTemplateGeneration": status.pod_template_generation,
            "provisioningStrategy": status.provisioning_strategy,
            "conditions": [condition_manifest(one) for one in status.conditions],
        }
        body = {"metadata": {"uid": meta.uid}, "status": fields}
        patch_status(self._api, KIND, meta, body, is_apply=False)

    def write_quota_status(self, quota: CapacityQuota) -> None:
        """See ClusterWrites. A newer quota of the same name is not written: its uid differs."""
        status = quota.status
        fields: dict[str, Any] = {
            "conditions": [condition_manifest(one) for one in status.conditions],
            "observedGeneration": status.observed_generation,
        }
        if status.used is not None:
            fields["used"] = {"resources": status.used.resources}
        body = {"metadata": {"name": quota.name, "uid": quota.metadata.uid}, "status": fields}
        patch_status(self._api, "CapacityQuota", quota.metadata, body, is_apply=True)

    def _read_node(self, name: str) -> Node | None:
        raw = find(self._api, f"{self._nodes.path}/{name}")
        return self._nodes.decode(raw) if raw is not None else None

    def _edit_once(self, name: str, edit: Callable[[Node], Node]) -> Node | None:
        before = self._read_node(name)
        if before is None:
            return None
        patch = node_patch(before, edit(before))
        if patch:
            patch.setdefault("metadata", {})["resourceVersion"] = before.metadata.resource_version
            path = f"{self._nodes.path}/{name}"
            body = msgspec.json.encode(patch)
            try:
                self._api.send(Request(method="PATCH", path=path, body=body, content_type=MERGE_PATCH))
            except ApiError as error:
                if error.is_missing:
                    return None
                raise
        return before


def node_patch(before: Node, after: Node) -> dict[str, Any]:
    """Return a merge patch of taints, cordon and annotations; empty if they are equal."""
    patch: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    if before.spec.taints != after.spec.taints:
        spec["taints"] = [_taint(msgspec.to_builtins(taint)) for taint in after.spec.taints] or None
    if before.spec.unschedulable != after.spec.unschedulable:
        spec["unschedulable"] = after.spec.unschedulable or None
    if spec:
        patch["spec"] = spec
    old, new = before.metadata.annotations, after.metadata.annotations
    changed: dict[str, str | None] = {key: value for key, value in new.items() if old.get(key) != value}
    changed |= dict.fromkeys(old.keys() - new.keys())
    if changed:
        patch["metadata"] = {"annotations": changed}
    return patch


def _taint(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value}


def _pod_path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"


def _delete_options(pod: Pod, grace_seconds: int) -> dict[str, Any]:
    """Return delete options for this very pod, not for a later one of the same name."""
    options: dict[str, Any] = {"gracePeriodSeconds": grace_seconds}
    if pod.metadata.uid:
        options["preconditions"] = {"uid": pod.metadata.uid}
    return options


def _refusal(error: ApiError) -> Eviction:
    """Return the answer for this pod that the error stands for; raise the error if it is about the API server."""
    if error.is_missing:
        return Eviction(answer=EvictionAnswer.GONE)
    if error.is_conflict and "uid" in str(error).lower():
        return Eviction(answer=EvictionAnswer.GONE, message="another pod has its name by now")
    if error.status in (409, 429) or _TWO_BUDGETS in str(error):
        return Eviction(answer=EvictionAnswer.REFUSED, message=str(error), retry_after=error.retry_after)
    raise error


def patch_status(api: Api, kind: str, meta: ObjectMeta, body: dict[str, Any], *, is_apply: bool) -> None:
    """Send a merge patch, or a server-side apply that keeps the fields of other managers; raise ApiError."""
    query = {"fieldManager": FIELD_MANAGER}
    if is_apply:
        known = KINDS[kind]
        body = {"apiVersion": f"{known.api_group}/{known.version}", "kind": kind, **body}
        query["force"] = "true"
    api.send(
        Request(
            method="PATCH",
            path=f"{object_path(kind, meta)}/status",
            query=query,
            body=msgspec.json.encode(body),
            content_type=APPLY_PATCH if is_apply else MERGE_PATCH,
        )
    )


def condition_manifest(condition: Condition) -> dict[str, Any]:
    """Return the condition as the API expects it: texts may be empty, a generation is present only if known."""
    found: dict[str, Any] = msgspec.to_builtins(condition)
    if not condition.observed_generation:
        del found["observedGeneration"]
    return found
