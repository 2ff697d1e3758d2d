"""The calls to AWS that the plugin needs, typed. Every method may raise errors of nodewright's tree."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from nodewright.spec import ApiCalls
from nodewright_aws.shapes import (
    Activity,
    CapacityReservation,
    EksNodegroup,
    Group,
    Image,
    InstanceTypeInfo,
    LaunchConfiguration,
    LaunchTemplateData,
    Message,
    NewGroup,
    Raw,
    ScheduledEvent,
    SpotPrice,
    TemplateSpec,
)

TagFilter = Mapping[str, str]  # tag key → value, or "" for any value; all of them together


class Api(Protocol):
    """One account in one region."""

    def made(self) -> Sequence[ApiCalls]:
        """Return the number of calls so far, by operation and result."""

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """Let this thread begin no call later than ``seconds`` from now; raise ProviderUnavailable instead."""

    def region(self) -> str:
        """Return the region; raise ProviderError if none is configured."""

    def server_time(self) -> float:
        """Return the time of AWS's last response (epoch seconds, AWS's clock; 0: there was none yet)."""

    # Auto Scaling: reads

    def groups_named(self, names: Sequence[str], *, urgent: bool = False) -> Sequence[Group]:
        """Return those of the groups that exist. ``urgent``: the budget of calls does not apply."""

    def groups_tagged(self, tags: TagFilter) -> Sequence[Group]:
        """Return the groups that carry all of these tags."""

    def activities(self, group: str) -> Sequence[Activity]:
        """Return the last activities of a group, the newest first: one page."""

    def launch_configurations(self, names: Sequence[str]) -> Sequence[LaunchConfiguration]:
        """Return those of the launch configurations that exist."""

    # Auto Scaling: writes

    def set_desired(self, group: str, size: int) -> None:
        """Set the desired capacity, without a cooldown."""

    def terminate(self, instance_id: str) -> None:
        """Terminate this instance and lower the desired capacity of its group by one."""

    def protect(self, group: str, instance_ids: Sequence[str]) -> None:
        """Protect these instances: AWS does not choose them when it scales in."""

    def protect_new(self, group: str) -> None:
        """Protect all instances that the group starts from now on."""

    def create_group(self, group: NewGroup) -> None:
        """Create a group without instances."""

    def delete_group(self, name: str) -> None:
        """Delete a group; AWS refuses while it has instances."""

    # Machine data

    def launch_template(self, spec: TemplateSpec) -> LaunchTemplateData:
        """Return that version of the template; raise ProviderError if it does not exist."""

    def image(self, image_id: str) -> Image | None:
        """Return the image; None: it does not exist or is not visible to us."""

    def instance_types(self, names: Sequence[str]) -> Sequence[InstanceTypeInfo]:
        """Return those of the types that exist in the region."""

    def types_meeting(self, requirements: Raw, image: Image | None) -> Sequence[str]:
        """Return the instance types that meet the requirements and can run the image, in AWS's order."""

    def nodegroup(self, cluster: str, name: str) -> EksNodegroup:
        """Return a managed node group of EKS; raise ProviderError if it does not exist."""

    def capacity_reservation(self, reservation_id: str) -> CapacityReservation:
        """Return the capacity reservation; raise ProviderError if it does not exist or is not shared with us."""

    # Prices

    def list_price(self, instance_type: str) -> tuple[float, str] | None:
        """Return the on-demand list price per hour in the region and its currency; None: it is not on the list."""

    def spot_prices(self, instance_types: Sequence[str], at: float) -> Sequence[SpotPrice]:
        """Return the spot prices of Linux machines at a time (epoch seconds), in every zone of the region."""

    # Interruptions

    def queue_url(self, name: str) -> str:
        """Return the URL of a queue; raise ProviderError if there is none of this name."""

    def receive_messages(self, url: str, wait_seconds: int, hidden_seconds: int) -> Sequence[Message]:
        """Return up to ten messages; wait for the first one. Other readers do not see them for ``hidden_seconds``."""

    def delete_messages(self, url: str, receipts: Sequence[str]) -> None:
        """Delete the messages that were read with these receipts."""

    def hide_message(self, url: str, receipt: str, seconds: int) -> None:
        """Hide the message from other readers for ``seconds`` from now on."""

    def scheduled_events(self) -> Sequence[ScheduledEvent]:
        """Return the scheduled events of all instances."""

    # Permissions and other writers

    def simulate(self, actions: Sequence[str], group: Group) -> Mapping[str, bool] | None:
        """Return IAM's decision for each action on the group; None: we may not use IAM's simulator."""

    def dry_run(self, operation: str, template: TemplateSpec | None = None) -> bool:
        """Return whether we may call this EC2 operation, about this launch template if it needs one."""

    def policy_owners(self) -> Collection[str]:
        """Return the groups whose size a scaling policy of AWS may change."""

    def scheduled_owners(self) -> Collection[str]:
        """Return the groups whose size a scheduled action of AWS will change."""
