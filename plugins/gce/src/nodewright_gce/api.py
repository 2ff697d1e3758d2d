"""What the plugin asks of Compute Engine: the narrow, typed face of the SDK. Every method may raise errors of
nodewright's tree.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from nodewright.spec import ApiCalls
from nodewright_gce.kube_env import Template
from nodewright_gce.refs import Place, Ref, TemplateRef
from nodewright_gce.shapes import Autoscaler, MachineType, Managed, Manager, ResizeRequest, Vm


class Api(Protocol):
    """Compute Engine, as one identity sees it."""

    def made(self) -> Sequence[ApiCalls]:
        """How many calls were made so far, by operation and result."""

    def places(self) -> Sequence[Place]:
        """The zones in which groups are discovered; raises ProviderError if no project or zone is known."""

    # Groups and machines: reads. ``urgent``: whatever the budget of calls says.

    def managers(self, place: Place) -> Sequence[Manager]:
        """All groups of a zone."""

    def manager(self, ref: Ref, *, urgent: bool = False) -> Manager:
        """One group; raises NodeGroupNotFound."""

    def managed(self, ref: Ref, *, urgent: bool = False) -> Sequence[Managed]:
        """The instances of a group as its manager sees them, those that could not be created among them."""

    def vms(self, place: Place) -> Sequence[Vm]:
        """All instances of a zone, of groups or not."""

    # Writes

    def create(self, ref: Ref, names: Sequence[str], request_id: str) -> None:
        """Add instances of these names; the same request sent twice counts once."""

    def delete(self, ref: Ref, instances: Sequence[Ref], request_id: str) -> None:
        """End these instances and lower the size by as many; those that are gone or going are passed over."""

    def request_resize(self, ref: Ref, name: str, count: int, request_id: str) -> None:
        """Ask for so many machines, all or none."""

    def resize_request(self, ref: Ref, name: str) -> ResizeRequest | None:
        """How that request stands; None if there is none."""

    def cancel_resize(self, ref: Ref, name: str) -> None:
        """Take the request back; raises ProviderError if it is too late for that."""

    # What machines are like

    def template(self, ref: TemplateRef) -> Template:
        """Raises ProviderError if there is none."""

    def machine_type(self, place: Place, name: str) -> MachineType:
        """Raises ProviderError if the zone has none of that name."""

    # Who may do what, and who else does

    def granted(self, project: str, permissions: Sequence[str]) -> Collection[str]:
        """Those of the permissions that we have in the project."""

    def autoscalers(self, place: Place) -> Sequence[Autoscaler]:
        """Compute Engine's own autoscalers."""

    def regional_managers(self, project: str, region: str) -> Sequence[Manager]:
        """Groups that are spread over a region."""
