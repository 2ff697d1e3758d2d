"""``nodewright doctor`` for Compute Engine: the permission for each capability, and other writers of the groups.

Doctor changes nothing and tries nothing: the resource manager returns which permissions we have in a project. If it
refuses, doctor reports that as a warning.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec
import yaml

from nodewright.spec import Capability, Finding, FindingLevel, ProviderError
from nodewright.spec.cache import attempt
from nodewright_gce.api import Api
from nodewright_gce.discovery import Selection
from nodewright_gce.fleet import Fleet, Group
from nodewright_gce.options import Options
from nodewright_gce.refs import Place, Ref
from nodewright_gce.shapes import Autoscaler

_OK, _WARNING, _PROBLEM = FindingLevel.OK, FindingLevel.WARNING, FindingLevel.PROBLEM
_OTHERS = "other writers"


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """A permission of IAM, and what does not work without it."""

    name: str
    without: str
    level: FindingLevel = _PROBLEM
    capability: Capability | None = None


_REGIONAL = "compute.regionOperations.get"
PERMISSIONS = (
    Permission(name="compute.instanceGroupManagers.get", without="no size can be changed and no failure can be read"),
    Permission(name="compute.instanceGroupManagers.list", without="no group can be read"),
    Permission(name="compute.instanceGroupManagers.update", without="no size can be changed and no machine deleted"),
    Permission(name="compute.instances.create", without="no machine can be added"),
    Permission(name="compute.instances.delete", without="no machine can be deleted"),
    Permission(name="compute.instances.list", without="machines are listed group by group", level=_WARNING),
    Permission(name="compute.instanceTemplates.get", without="no group has a template"),
    Permission(
        name="compute.instanceTemplates.useReadOnly",
        without="no machine can be created from a template",
        level=_WARNING,
    ),
    Permission(
        name="compute.machineTypes.get", without="only custom machine types and those of machine_types are known"
    ),
    Permission(name="compute.zoneOperations.get", without="the results of writes are not known"),
    Permission(name=_REGIONAL, without="the results of writes to regional groups are not known"),
    Permission(
        name="compute.zoneOperations.list",
        without="preemptions are not known",
        level=_WARNING,
        capability=Capability.INTERRUPTION,
    ),
    Permission(
        name="compute.autoscalers.list", without="doctor finds no autoscalers of Compute Engine", level=_WARNING
    ),
    Permission(name="compute.regions.get", without="the zones of the option region are not known"),
)
# To create machines nodewright must act as the service accounts of their templates, and as no others. The role holds for
# a project, so the permission is granted on each account instead.
_ACT_AS = "iam.serviceAccounts.actAs"
_ON_ACCOUNTS = """\
# Grant roles/iam.serviceAccountUser on each service account that the instance templates name, not on the project:
# gcloud iam service-accounts add-iam-policy-binding ACCOUNT --member=serviceAccount:NODEWRIGHT --role=roles/iam.serviceAccountUser
"""
_ERROR_GROUPS = 20


def minimal_policy(options: Options, selection: Selection) -> str:
    """Return a custom role in the form of ``gcloud iam roles create --file``."""
    role = {
        "title": "nodewright",
        "description": "What nodewright needs to run node groups on Compute Engine",
        "stage": "GA",
        "includedPermissions": [one.name for one in PERMISSIONS if _is_needed(one, options, selection)],
    }
    return _ON_ACCOUNTS + str(yaml.safe_dump(role, sort_keys=False))


class Doctor:
    """Examines Compute Engine with the permissions of one identity."""

    def __init__(self, api: Api, options: Options, selection: Selection) -> None:
        self._api = api
        self._options = options
        self._selection = selection

    def examine(self, fleet: Fleet) -> tuple[Finding, ...]:
        """Return findings on permissions, then on each group."""
        return (*self._permissions(fleet), *self._unreadable(fleet), *self._surroundings(fleet.groups))

    def _permissions(self, fleet: Fleet) -> Iterator[Finding]:
        needed = [one for one in PERMISSIONS if _is_needed(one, self._options, self._selection)]
        projects = {group.ref.project for group in fleet.groups.values()}
        projects |= {one.ref.project for one in self._selection.named.values()}
        if not projects:
            found = attempt(self._api.places)
            projects = set() if isinstance(found, ProviderError) else {place.project for place in found}
        asked = [*(one.name for one in needed), _ACT_AS]
        for project in sorted(projects):
            granted = attempt(lambda project=project: self._api.granted(project, asked))  # type: ignore[misc]  # mypy cannot type a lambda with a default
            if isinstance(granted, ProviderError):
                yield _untold(project, granted)
                continue
            for one in needed:
                yield _granted(one, project) if one.name in granted else _refused(one, project)
            if _ACT_AS in granted:
                yield Finding(
                    level=_WARNING,
                    subject=_ACT_AS,
                    message=f"granted on the whole project {project}: nodewright may act as every service account in it",
                    remedy="grant roles/iam.serviceAccountUser on the service accounts of the instance templates only",
                )

    def _unreadable(self, fleet: Fleet) -> Iterator[Finding]:
        for place, trouble in fleet.troubles.items():
            remedy = "correct the options project, zones or region, or the permissions"
            message = f"zone {place.zone} of project {place.project} cannot be read: {trouble}"
            yield Finding(level=_PROBLEM, subject="zone", message=message, remedy=remedy)
        for group_id in fleet.names() if fleet.was_read else ():
            found = attempt(lambda group_id=group_id: fleet.group(group_id))  # type: ignore[misc]  # mypy cannot type a lambda with a default
            if isinstance(found, ProviderError):
                remedy = "correct the URL, or the permissions"
                yield Finding(level=_PROBLEM, subject="group", message=str(found), remedy=remedy, group_id=group_id)

    def _surroundings(self, groups: Mapping[str, Group]) -> Iterator[Finding]:
        places = sorted({place for group in groups.values() for place in group.places})
        named = {group.ref for group in groups.values()}
        scaled: dict[str, str] = {}
        for place in places:
            found = attempt(lambda place=place: self._api.autoscalers(place))  # type: ignore[misc]  # mypy cannot type a lambda with a default
            if isinstance(found, ProviderError):
                message = f"cannot check for autoscalers in {place.zone}: {found}"
                yield Finding(level=_WARNING, subject=_OTHERS, message=message)
            else:
                scaled |= _targets(place, found)
        for group_id, group in groups.items():
            yield from _examine_group(group_id, group, scaled.get(group_id, ""))
        yield from self._regional(places, named)
        yield from self._errors(groups)

    def _errors(self, groups: Mapping[str, Group]) -> Iterator[Finding]:
        """Yield the newest error that the managers of the first groups met lately, for each."""
        for group_id, group in list(groups.items())[:_ERROR_GROUPS]:
            found = attempt(lambda ref=group.ref: self._api.group_errors(ref))  # type: ignore[misc]  # mypy cannot type a lambda with a default
            if not isinstance(found, ProviderError) and found:
                newest = found[0]
                said = f"{len(found)} errors lately, the newest at {newest.timestamp}: {newest.error.code}: {newest.error.message}"
                remedy = "correct the template, the quota or the reservation that the error names"
                yield Finding(level=_WARNING, subject="errors", message=said[:500], remedy=remedy, group_id=group_id)

    def _regional(self, places: Iterable[Place], named: Collection[Ref]) -> Iterator[Finding]:
        """Yield groups that match the discovery but are ignored because they are spread over a region."""
        if not self._selection.discoveries:
            return
        for project, region in sorted({(place.project, place.region) for place in places}):
            found = attempt(lambda project=project, region=region: self._api.regional_managers(project, region))  # type: ignore[misc]  # mypy cannot type a lambda with a default
            for manager in () if isinstance(found, ProviderError) else found:
                is_served = Ref(project, region, manager.name) in named
                if not is_served and any(one.fits(manager.name) for one in self._selection.discoveries):
                    kind = manager.update_policy.instance_redistribution_type or "PROACTIVE"
                    message = f"{manager.name} in {region} is a regional group and is ignored (redistribution {kind})"
                    remedy = "name it by --nodes, or make one zonal group for each zone"
                    yield Finding(level=_WARNING, subject="regional group", message=message, remedy=remedy)


def _examine_group(group_id: str, group: Group, autoscaler: str) -> Iterator[Finding]:
    writer = autoscaler or group.manager.status.autoscaler.rpartition("/")[2]
    if writer:
        yield Finding(
            level=_WARNING,
            subject=_OTHERS,
            message=f"Compute Engine's autoscaler {writer} also changes the size of this group",
            remedy="let only one of them change the size",
            group_id=group_id,
        )
    redistribution = group.manager.update_policy.instance_redistribution_type or "PROACTIVE"
    if group.ref.place.is_regional and redistribution == "PROACTIVE":
        yield Finding(
            level=_WARNING,
            subject="regional group",
            message="redistribution PROACTIVE: Compute Engine deletes running machines to balance its zones",
            remedy="set instanceRedistributionType to NONE, or make one zonal group for each zone",
            group_id=group_id,
        )
    updates = group.manager.update_policy.kind == "PROACTIVE" and len(group.manager.versions) > 1
    if updates:
        yield Finding(
            level=_WARNING,
            subject="updatePolicy",
            message="a proactive update between several templates replaces running machines",
            remedy="use type OPPORTUNISTIC, or end the update",
            group_id=group_id,
        )
    if not writer and not updates:
        yield Finding(level=_OK, subject=_OTHERS, message="none found", group_id=group_id)


def _targets(place: Place, autoscalers: Iterable[Autoscaler]) -> dict[str, str]:
    """Return names of autoscalers by the id of the group whose size they change."""
    found = {}
    for one in autoscalers:
        name = one.target.rpartition("/instanceGroupManagers/")[2]
        found[Ref(*place, name).group_id] = one.name
    return found


def _is_needed(one: Permission, options: Options, selection: Selection) -> bool:
    if one.name == _REGIONAL:
        return any(named.ref.place.is_regional for named in selection.named.values())
    if one.capability is Capability.INTERRUPTION:
        return options.preemption_interval > 0
    return bool(options.region) if one.name == "compute.regions.get" else True


def _granted(one: Permission, project: str) -> Finding:
    return Finding(level=_OK, subject=one.name, message=f"granted in {project}", capability=one.capability)


def _refused(one: Permission, project: str) -> Finding:
    return Finding(
        level=one.level,
        subject=one.name,
        message=f"not granted in {project}: {one.without}",
        remedy=f"grant {one.name}",
        capability=one.capability,
    )


def _untold(project: str, why: ProviderError) -> Finding:
    return Finding(
        level=_WARNING,
        subject="permissions",
        message=f"the resource manager does not return our permissions in {project}: {why}",
        remedy="enable the API cloudresourcemanager, or compare the account's roles with the policy below",
    )
