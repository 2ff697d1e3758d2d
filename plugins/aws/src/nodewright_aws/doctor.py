"""``nodewright doctor`` for AWS: the permission for each capability, and other writers of the groups.

Doctor changes nothing. What IAM's simulator cannot decide is tried: EC2 has dry runs, and a write of Auto Scaling is
sent for a group that does not exist, which AWS refuses because of its name, or because of a missing permission.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from nodewright.spec import AccessDenied, Finding, FindingLevel, ProviderError, ProviderUnavailable
from nodewright.spec.cache import attempt
from nodewright_aws.api import Api
from nodewright_aws.catalogue import launch_template_of
from nodewright_aws.discovery import Selection
from nodewright_aws.errors import NO_CREDENTIALS, NO_REGION
from nodewright_aws.fleet import Fleet
from nodewright_aws.options import Options
from nodewright_aws.policy import START, Permission, needed_permissions
from nodewright_aws.shapes import Group, NewGroup, TemplateSpec

_NOWHERE = "nodewright-doctor-no-such-group"
_NO_RECEIPT = "nodewright-doctor-no-such-receipt"
_NO_INSTANCE = "i-00000000000000000"
# AWS refuses it because of its launch template, or because of a missing permission.
_IMPOSSIBLE = NewGroup(
    name=_NOWHERE,
    max_size=0,
    launch_template=TemplateSpec(launch_template_name=_NOWHERE),
    instance_type="t3.micro",
    availability_zones=("nowhere",),
)
_SIMULATED = 20
_CLUSTER_TAG = "kubernetes.io/cluster/"
_OK, _WARNING, _PROBLEM = FindingLevel.OK, FindingLevel.WARNING, FindingLevel.PROBLEM


class Doctor:
    """Examines one account."""

    def __init__(self, api: Api, options: Options, selection: Selection) -> None:
        self._api = api
        self._options = options
        self._selection = selection

    def examine(self, fleet: Fleet) -> tuple[Finding, ...]:
        """Return findings on permissions, then on each group.

        Without region or credentials nothing else can be examined. Then that is the only finding, or none if the read of
        the cloud has failed for it already. Before the first listing nothing is returned about missing groups.
        """
        answer = attempt(lambda: self._api.groups_named([_NOWHERE]))
        if isinstance(answer, ProviderError) and answer.code in (NO_CREDENTIALS, NO_REGION):
            subject = "region" if answer.code == NO_REGION else "credentials"
            return (Finding(level=_PROBLEM, subject=subject, message=str(answer)),) if fleet.was_read else ()
        groups = fleet.groups
        missing = (_missing(name) for name in self._selection.named if fleet.was_read and name not in groups)
        return (*self._permissions(list(groups.values())), *missing, *self._surroundings(groups.values()))

    def _permissions(self, groups: Sequence[Group]) -> Iterator[Finding]:
        needed = needed_permissions(self._options)
        sample = groups[:_SIMULATED]
        # IAM's simulator is asked about groups, not about the queue or a launch template.
        tried = [one for one in needed if one.is_of_queue or one.action == START]
        yield from (self._probe(one, groups) for one in tried)
        needed = [one for one in needed if one not in tried]
        decided = [(group, self._api.simulate([one.action for one in needed], group)) for group in sample]
        if not decided or any(decision is None for _, decision in decided):
            yield from (self._probe(one, groups) for one in needed)
            return
        for one in needed:
            denied = [
                group.name for group, decision in decided if decision is not None and not decision.get(one.action)
            ]
            if not denied:
                yield _granted(one, f"granted for {len(sample)} of {len(groups)} groups, according to IAM's simulator")
            for name in denied:
                yield _refused(one, "denied by IAM's simulator", group_id=name)

    def _probe(self, one: Permission, groups: Sequence[Group]) -> Finding:
        try:
            self._use(one.action, groups)
        except AccessDenied as error:
            if one.is_write:
                return _unsure(one)
            return _refused(one, str(error))
        except ProviderError as error:
            if error.code in ("unavailable", "throttled"):
                return Finding(level=_WARNING, subject=one.action, message=f"cannot be checked now: {error}")
        return _granted(one, "granted")

    def _use(self, action: str, groups: Sequence[Group]) -> None:
        """Call the action where it cannot change anything; raise AccessDenied, or any other error of AWS."""
        api = self._api
        service, _, operation = action.partition(":")
        if service == "ec2":
            template = self._template_of_model() if action == START else None
            if not api.dry_run(operation, template):
                raise AccessDenied(f"{operation} was refused in a dry run")
            return
        queue = self._options.interruption_queue
        uses: Mapping[str, Callable[[], object]] = {
            "DescribeAutoScalingGroups": lambda: api.groups_named([_NOWHERE]),
            "DescribeScalingActivities": lambda: api.activities(groups[0].name if groups else _NOWHERE),
            "DescribeLaunchConfigurations": lambda: api.launch_configurations([_NOWHERE]),
            "GetProducts": lambda: api.list_price("m5.large"),
            "DescribeNodegroup": lambda: api.nodegroup(_NOWHERE, _NOWHERE),
            "GetQueueUrl": lambda: api.queue_url(queue),
            # Other readers see the messages at once.
            "ReceiveMessage": lambda: api.receive_messages(api.queue_url(queue), 0, 0),
            "DeleteMessage": lambda: api.delete_messages(api.queue_url(queue), [_NO_RECEIPT]),
            "ChangeMessageVisibility": lambda: api.hide_message(api.queue_url(queue), _NO_RECEIPT, 0),
            "SetDesiredCapacity": lambda: api.set_desired(_NOWHERE, 0),
            "TerminateInstanceInAutoScalingGroup": lambda: api.terminate(_NO_INSTANCE),
            "SetInstanceProtection": lambda: api.protect(_NOWHERE, [_NO_INSTANCE]),
            "UpdateAutoScalingGroup": lambda: api.protect_new(_NOWHERE),
            "CreateAutoScalingGroup": lambda: api.create_group(_IMPOSSIBLE),
            "DeleteAutoScalingGroup": lambda: api.delete_group(_NOWHERE),
        }
        uses[operation]()

    def _template_of_model(self) -> TemplateSpec:
        """Return the launch template of new groups: the permission may be for no other. Raise an error if there is none."""
        making = self._options.autoprovisioning
        found = self._api.groups_named([making.like]) if making is not None else ()
        template = launch_template_of(found[0]) if found else None
        if template is None:
            raise ProviderUnavailable(
                "the group of the option autoprovisioning.like has no launch template, or is not there"
            )
        return template

    def _surroundings(self, groups: Iterable[Group]) -> Iterator[Finding]:
        others = {
            "a scaling policy": attempt(self._api.policy_owners),
            "a scheduled action": attempt(self._api.scheduled_owners),
        }
        for what, owners in others.items():
            if isinstance(owners, ProviderError):
                yield Finding(level=_WARNING, subject="other writers", message=f"cannot check for {what}: {owners}")
        for group in groups:
            writers = [what for what, owners in others.items() if _holds(owners, group.name)]
            yield from _examine_writers(group, [*writers, *_owners_by_tag(group)])
            yield from _examine_settings(group)
            yield from self._examine_limits(group)

    def _examine_limits(self, group: Group) -> Iterator[Finding]:
        spec = self._selection.named.get(group.name)
        if spec is None or (group.min_size <= spec.min_size and spec.max_size <= group.max_size):
            return
        message = f"--nodes says {spec.min_size}:{spec.max_size}, AWS has {group.min_size}:{group.max_size}: the narrower limits apply"
        yield Finding(level=_WARNING, subject="limits", message=message, remedy="make them equal", group_id=group.name)


def _examine_writers(group: Group, writers: Sequence[str]) -> Iterator[Finding]:
    for writer in writers:
        message = f"{writer} also changes the size of this group"
        yield Finding(
            level=_WARNING,
            subject="other writers",
            message=message,
            remedy="let only one of them change the size",
            group_id=group.name,
        )
    suspended = {process.process_name for process in group.suspended_processes}
    for process in sorted(suspended & {"Launch", "Terminate"}):
        yield Finding(
            level=_PROBLEM,
            subject=f"process {process}",
            message=f"{process} is suspended: AWS does not carry it out",
            remedy=f"resume {process}",
            group_id=group.name,
        )
    protected = group.new_instances_protected_from_scale_in
    rebalances = len(group.availability_zones) > 1 and "AZRebalance" not in suspended and not protected
    if rebalances:
        yield Finding(
            level=_WARNING,
            subject="process AZRebalance",
            message=f"zone rebalancing over {len(group.availability_zones)} zones terminates running instances",
            remedy="suspend AZRebalance, or make one group for each zone",
            group_id=group.name,
        )
    if not writers and not rebalances:
        yield Finding(level=_OK, subject="other writers", message="none found", group_id=group.name)


def _examine_settings(group: Group) -> Iterator[Finding]:
    if not group.new_instances_protected_from_scale_in:
        yield Finding(
            level=_WARNING,
            subject="NewInstancesProtectedFromScaleIn",
            message="off: nodewright switches it on before it lowers the size for the first time",
            remedy="switch it on in the group's own configuration",
            group_id=group.name,
        )
    if group.counts_other:
        yield Finding(
            level=_PROBLEM,
            subject="desired capacity",
            message=f"the size counts {group.counts_other}, not machines: nodewright does not change it",
            remedy="remove the weights from the overrides, and let DesiredCapacityType be units",
            group_id=group.name,
        )
    if group.capacity_rebalance:
        yield Finding(
            level=_WARNING,
            subject="CapacityRebalance",
            message="AWS replaces spot instances at risk by itself, and may terminate them before their pods have moved",
            remedy="switch it off, and let nodewright read AWS's notices (interruption_queue)",
            group_id=group.name,
        )
    if group.warm_pool_configuration is not None:
        yield Finding(
            level=_WARNING,
            subject="warm pool",
            message="the machines that wait in it cost money that nodewright does not count",
            remedy="use a capacity buffer in its place",
            group_id=group.name,
        )


def _owners_by_tag(group: Group) -> Iterator[str]:
    """Yield other owners of the group, according to its tags."""
    owned = [
        tag.key.removeprefix(_CLUSTER_TAG)
        for tag in group.tags
        if tag.key.startswith(_CLUSTER_TAG) and tag.value == "owned"
    ]
    if len(owned) > 1:
        yield f"the autoscaler of another cluster (it is owned by {', '.join(sorted(owned))})"
    if any(tag.key == "AmazonECSManaged" for tag in group.tags):
        yield "an ECS capacity provider"


def _holds(owners: Collection[str] | ProviderError, name: str) -> bool:
    return not isinstance(owners, ProviderError) and name in owners


def _missing(name: str) -> Finding:
    message = "--nodes names this group, but there is no such Auto Scaling group"
    return Finding(
        level=_PROBLEM, subject="--nodes", message=message, remedy="correct the name or the region", group_id=name
    )


def _granted(one: Permission, message: str) -> Finding:
    return Finding(level=_OK, subject=one.action, message=message, capability=one.capability)


def _refused(one: Permission, why: str, group_id: str = "") -> Finding:
    return Finding(
        level=one.level,
        subject=one.action,
        message=f"{one.without}: {why}",
        remedy=f"grant {one.action}",
        group_id=group_id,
        capability=one.capability,
    )


def _unsure(one: Permission) -> Finding:
    """Return a finding for a write that AWS refused.

    A policy with a condition on tags refuses a group that does not exist, just like a policy without the action.
    """
    return Finding(
        level=_WARNING,
        subject=one.action,
        message=f"AWS refused a harmless test call; without this permission {one.without}",
        remedy="grant iam:SimulatePrincipalPolicy, so that doctor can tell a condition of the policy from a missing permission",
        capability=one.capability,
    )
