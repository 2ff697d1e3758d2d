"""What the plugin asks of AWS: the narrow, typed face of the SDK. Every method may raise errors of nodewright's tree."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from nodewright.spec import ApiCalls
from nodewright_aws.shapes import (
    Activity,
    EksNodegroup,
    Group,
    Image,
    InstanceTypeInfo,
    LaunchConfiguration,
    LaunchTemplateData,
    NewGroup,
    Raw,
    TemplateSpec,
)

TagFilter = Mapping[str, str]  # tag key → value, or "" for any value; all of them together


class Api(Protocol):
    """One account in one region."""

    def made(self) -> Sequence[ApiCalls]:
        """How many calls were made so far, by operation and result."""

    def region(self) -> str:
        """The region that is asked; raises ProviderError if none is configured."""

    def server_time(self) -> float:
        """Epoch seconds of AWS's clock at its last answer: its times are never compared with ours. 0 before that."""

    # Auto Scaling: reads

    def groups_named(self, names: Sequence[str], *, urgent: bool = False) -> Sequence[Group]:
        """Those of the groups that exist. ``urgent``: whatever the budget of calls says."""

    def groups_tagged(self, tags: TagFilter) -> Sequence[Group]:
        """Groups that carry all of these tags."""

    def activities(self, group: str) -> Sequence[Activity]:
        """What was done to a group lately, the newest first: one page."""

    def launch_configurations(self, names: Sequence[str]) -> Sequence[LaunchConfiguration]:
        """Those that exist."""

    # Auto Scaling: writes

    def set_desired(self, group: str, size: int) -> None:
        """Make this the desired capacity, at once."""

    def terminate(self, instance_id: str) -> None:
        """End this instance and lower its group's desired capacity by one."""

    def protect(self, group: str, instance_ids: Sequence[str]) -> None:
        """AWS must not choose these instances when it scales in."""

    def protect_new(self, group: str) -> None:
        """Instances that the group starts from now on are protected from the beginning."""

    def create_group(self, group: NewGroup) -> None:
        """Make a group without instances."""

    def delete_group(self, name: str) -> None:
        """Delete a group; AWS refuses while it has instances."""

    # What machines are like

    def launch_template(self, spec: TemplateSpec) -> LaunchTemplateData:
        """That version of the template; raises ProviderError if there is none."""

    def image(self, image_id: str) -> Image | None:
        """None if there is no such image that we may see."""

    def instance_types(self, names: Sequence[str]) -> Sequence[InstanceTypeInfo]:
        """Those of the types that exist in the region."""

    def types_meeting(self, requirements: Raw, image: Image | None) -> Sequence[str]:
        """Instance types that meet the requirements and can run the image, in AWS's order."""

    def nodegroup(self, cluster: str, name: str) -> EksNodegroup:
        """A managed node group of EKS; raises ProviderError if there is none."""

    # Who may do what, and who else does

    def simulate(self, actions: Sequence[str], group: Group) -> Mapping[str, bool] | None:
        """What IAM would decide for each action on the group; None if IAM may not be asked."""

    def dry_run(self, operation: str) -> bool:
        """May this EC2 operation be called?"""

    def policy_owners(self) -> Collection[str]:
        """Groups whose size a scaling policy of AWS may change."""

    def scheduled_owners(self) -> Collection[str]:
        """Groups whose size a scheduled action of AWS will change."""
