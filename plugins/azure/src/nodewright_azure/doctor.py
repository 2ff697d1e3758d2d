"""``nodewright doctor`` for Azure: the permission for each capability, and other writers of the scale sets.

Doctor changes nothing. Azure returns our permissions in a resource group, so that no write has to be tried.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nodewright.spec import AccessDenied, Finding, FindingLevel, NodeGroupNotFound, ProviderError
from nodewright.spec.cache import attempt
from nodewright_azure.account import Account
from nodewright_azure.agent_pools import split_name
from nodewright_azure.api import Api
from nodewright_azure.errors import NO_CREDENTIALS
from nodewright_azure.fleet import Fleet
from nodewright_azure.machines import find_failure
from nodewright_azure.options import Options
from nodewright_azure.policy import ON_CLUSTER, READ_SKUS, Permission, allows, in_group, on_subscription
from nodewright_azure.shapes import AutoscaleSetting, Lock, RolePermissions, ScaleSet

_OK, _WARNING, _PROBLEM = FindingLevel.OK, FindingLevel.WARNING, FindingLevel.PROBLEM
_LOCK = "/providers/microsoft.authorization/locks/"
_READ_ONLY = "readonly"


class Doctor:
    """Examines one resource group."""

    def __init__(self, api: Api, options: Options, account: Account) -> None:
        self._api = api
        self._options = options
        self._cluster = account.cluster

    def examine(self, fleet: Fleet) -> tuple[Finding, ...]:
        """Return findings on permissions, then on each set.

        Without credentials nothing is returned: the read of the cloud has reported that.
        """
        sets, grants = fleet.sets, attempt(self._api.grants)
        if isinstance(grants, ProviderError) and grants.code == NO_CREDENTIALS:
            return ()
        return (
            *self._permissions(list(sets.values()), grants),
            *(self._missing(name, fleet.no_pools) for name in fleet.names() if fleet.was_read and name not in sets),
            *(_unusable(name, why) for name, why in fleet.unusable.items()),
            *self._surroundings(sets),
        )

    def _permissions(
        self, sets: Sequence[ScaleSet], grants: Sequence[RolePermissions] | ProviderError
    ) -> Iterator[Finding]:
        needed = in_group(self._options, [one.is_loose for one in sets])
        yield from _examine_grants(needed, grants, self._api.place())
        if self._cluster is not None:
            where = f"resource group {self._cluster.resource_group} of cluster {self._cluster.name}"
            yield from _examine_grants(ON_CLUSTER, attempt(self._api.cluster_grants), where)
        place = next((one.location for one in sets if one.location), None)
        if place is not None:
            wide = on_subscription(self._options, serves_pools=self._cluster is not None)
            yield from (self._try_out(one, place) for one in wide)

    def _try_out(self, one: Permission, location: str) -> Finding:
        """Use a permission: those in a resource group do not cover what belongs to the subscription."""
        if one is READ_SKUS:
            found: object = attempt(lambda: self._api.skus(location))
        else:
            service = one.action.partition("/")[0]
            found = attempt(lambda: self._api.probe_operations(service, location))
        if isinstance(found, AccessDenied):
            return _refused(one, str(found))
        # No operation has the name that is asked for. Azure looks for it only if we may: no other error proves that.
        is_proof = one is not READ_SKUS and isinstance(found, NodeGroupNotFound)
        if isinstance(found, ProviderError) and not is_proof:
            return Finding(level=_WARNING, subject=one.action, message=f"cannot be checked now: {found}")
        return _granted(one)

    def _missing(self, name: str, no_pools: ProviderError | None) -> Finding:
        """Return a finding for a missing group. ``no_pools``: the error because of which VM pools are not known."""
        message, remedy = (
            "--nodes names this group, but there is no such scale set",
            "correct the name or the resource group",
        )
        if split_name(name) is not None:
            message = "--nodes names this group, but no VM pool has a manual scale profile of that size"
            remedy = "correct the name, or scale the pool by hand once, so that AKS does not scale it itself"
            if self._cluster is None:
                remedy = "if this is a VM pool of AKS, set the option vm_pools"
            if no_pools is not None:
                message = f"--nodes names this group, but VM pools cannot be read: {no_pools}"
                remedy = "check the options cluster and cluster_resource_group, and the role in that resource group"
        return Finding(level=_PROBLEM, subject="--nodes", message=message, remedy=remedy, group_id=name)

    def _surroundings(self, sets: Mapping[str, ScaleSet]) -> Iterator[Finding]:
        locks, settings = attempt(self._api.locks), attempt(self._api.autoscale_settings)
        for what, found in (("locks", locks), ("autoscale settings", settings)):
            if isinstance(found, ProviderError):
                subject = "other writers" if found is settings else "locks"
                yield Finding(level=_WARNING, subject=subject, message=f"cannot check for {what}: {found}")
        for name, one in sets.items():
            if not isinstance(locks, ProviderError):
                yield from _examine_locks(name, one, locks)
            writers = [] if isinstance(settings, ProviderError) else list(_autoscalers(one, settings))
            yield from _examine_writers(name, one, writers)
            yield from _examine_settings(name, one)
            yield from self._examine_state(name, one)

    def _examine_state(self, name: str, one: ScaleSet) -> Iterator[Finding]:
        if not one.has_failed:
            return
        found = attempt(lambda: self._api.problems(one.name))
        why = None if isinstance(found, ProviderError) else find_failure(found)
        words = f"{why.code}: {why.message}" if why is not None else "Azure does not say why"
        message = f"the last operation on the set failed: {words}"
        yield Finding(level=_WARNING, subject="provisioningState", message=message, group_id=name)


def _examine_grants(
    needed: Iterable[Permission], grants: Sequence[RolePermissions] | ProviderError, where: str
) -> Iterator[Finding]:
    if isinstance(grants, ProviderError):
        message = f"our permissions in {where} cannot be read: {grants}"
        yield Finding(level=_WARNING, subject="permissions", message=message)
        return
    for one in needed:
        if allows(grants, one.action):
            yield _granted(one)
        else:
            yield _refused(one, f"no role in {where} grants it")


def _examine_locks(name: str, one: ScaleSet, locks: Iterable[Lock]) -> Iterator[Finding]:
    for lock in locks:
        locked = lock.id.lower().partition(_LOCK)[0]
        if not f"{one.id.lower()}/".startswith(f"{locked}/"):
            continue
        read_only = lock.properties.level.lower() == _READ_ONLY
        effect = "no size can be changed" if read_only else "machines possibly cannot be deleted"
        yield Finding(
            level=_PROBLEM if read_only else _WARNING,
            subject=f"lock {lock.name}",
            message=f"{lock.properties.level}: {effect}",
            remedy="remove the lock, or move the locked resources into another resource group",
            group_id=name,
        )


def _examine_writers(name: str, one: ScaleSet, writers: Sequence[str]) -> Iterator[Finding]:
    for writer in writers:
        message = f"the autoscale setting {writer} also changes the size of this set"
        remedy = "let only one of them change the size"
        yield Finding(level=_WARNING, subject="other writers", message=message, remedy=remedy, group_id=name)
    properties = one.properties
    repairs = properties.automatic_repairs_policy is not None and properties.automatic_repairs_policy.enabled
    if repairs:
        message = "Azure replaces machines that it considers unhealthy"
        yield _setting("automaticRepairsPolicy", message, "switch automatic repairs off", name)
    mode = properties.upgrade_policy.mode if properties.upgrade_policy is not None else None
    changes = mode in ("Automatic", "Rolling")
    if changes:
        message = f"{mode}: Azure restarts or replaces machines when the set's model changes"
        yield _setting("upgradePolicy", message, "set the upgrade policy to Manual", name)
    if not writers and not repairs and not changes:
        yield Finding(level=_OK, subject="other writers", message="none found", group_id=name)


def _examine_settings(name: str, one: ScaleSet) -> Iterator[Finding]:
    if one.properties.overprovision:
        message = "on: Azure starts more machines than requested, and deletes some after they have become nodes"
        yield _setting("overprovision", message, "set overprovision to false", name)
    if one.keeps_evicted:
        message = (
            "Deallocate: evicted spot machines stay in the capacity, without a node, until nodewright deletes them"
        )
        yield _setting("evictionPolicy", message, "set the eviction policy to Delete", name)
    if one.pool is not None and one.pool.deallocates:
        message = (
            "Deallocate: nodewright deletes the machines of this pool all the same, and starts none that is deallocated"
        )
        yield _setting("scaleDownMode", message, "set the pool's scale-down mode to Delete", name)
    if not one.has_known_mode:
        mode = one.properties.orchestration_mode or "not reported"
        message = f"{mode}: only machines of Uniform and Flexible sets can be read"
        remedy = "create the set again"
        yield Finding(level=_PROBLEM, subject="orchestrationMode", message=message, remedy=remedy, group_id=name)
    if len(one.zones or ()) > 1:
        message = f"{len(one.zones or ())} zones: it is not known in which of them Azure starts the next machine"
        yield _setting("zones", message, "create one set for each zone", name)
    if one.etag is None:
        message = "not reported: writes have no condition, and sizes are lowered only by deletions"
        yield _setting("etag", message, "none: it depends on Azure", name)


def _autoscalers(one: ScaleSet, settings: Iterable[AutoscaleSetting]) -> Iterator[str]:
    for setting in settings:
        if setting.properties.enabled and setting.properties.target_resource_uri.lower() == one.id.lower():
            yield setting.name


def _setting(subject: str, message: str, remedy: str, group_id: str) -> Finding:
    return Finding(level=_WARNING, subject=subject, message=message, remedy=remedy, group_id=group_id)


def _unusable(name: str, why: str) -> Finding:
    message = f"{name} matches but is not used: {why}"
    return Finding(level=_PROBLEM, subject="--node-group-auto-discovery", message=message, remedy="correct its tags")


def _granted(one: Permission) -> Finding:
    return Finding(level=_OK, subject=one.action, message="granted", capability=one.capability)


def _refused(one: Permission, why: str) -> Finding:
    return Finding(
        level=one.level,
        subject=one.action,
        message=f"{one.without}: {why}",
        remedy=f"grant {one.action}",
        capability=one.capability,
    )
