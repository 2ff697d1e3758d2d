"""The calls to Compute Engine that the plugin needs, typed.

Every method may raise errors of nodewright's tree.
"""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from nodewright.spec import ApiCalls
from nodewright_gce.kube_env import Template
from nodewright_gce.refs import Place, Ref, TemplateRef
from nodewright_gce.shapes import Autoscaler, GroupError, MachineType, Managed, Manager, Preemption, ResizeRequest, Vm


class Api(Protocol):
    """Compute Engine, with the permissions of one identity."""

    def made(self) -> Sequence[ApiCalls]:
        """Return the number of calls so far, by operation and result."""

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """Let this thread begin no call later than ``seconds`` from now; raise ProviderUnavailable instead."""

    def places(self) -> Sequence[Place]:
        """Return the zones in which groups are discovered; raise ProviderError if no project or zone is known."""

    # Groups and machines: reads. ``urgent``: the budget of calls does not apply.

    def managers(self, place: Place) -> Sequence[Manager]:
        """Return all groups of a zone."""

    def manager(self, ref: Ref, *, urgent: bool = False) -> Manager:
        """Return one group; raise NodeGroupNotFound."""

    def managed(self, ref: Ref, *, urgent: bool = False) -> Sequence[Managed]:
        """Return the instances of a group as its manager reports them, including failed creations."""

    def vms(self, place: Place) -> Sequence[Vm]:
        """Return all instances of a zone."""

    # Writes

    def create(self, ref: Ref, names: Sequence[str], request_id: str) -> None:
        """Add instances with these names. Compute Engine carries out a repeated request id only once."""

    def delete(self, ref: Ref, instances: Sequence[Ref], request_id: str) -> None:
        """Delete these instances, at most 1000, and lower the size by as many; ignore those that are gone or being deleted."""

    def request_resize(self, ref: Ref, name: str, count: int, request_id: str) -> None:
        """Request this many machines, all or none, for the option's run duration, or else the template's."""

    def resize_request(self, ref: Ref, name: str) -> ResizeRequest | None:
        """Return the state of the resize request; None: it does not exist."""

    def resize_requests(self, ref: Ref) -> Sequence[ResizeRequest]:
        """Return the group's resize requests, those that are over too."""

    def cancel_resize(self, ref: Ref, name: str) -> None:
        """Cancel the resize request; raise ProviderError if that is not possible any more."""

    # Machine data

    def template(self, ref: TemplateRef) -> Template:
        """Return the instance template; raise ProviderError if it does not exist."""

    def machine_type(self, place: Place, name: str) -> MachineType:
        """Return the machine type; raise ProviderError if the zone does not have it."""

    # Interruptions

    def preemptions(self, place: Place) -> Sequence[Preemption]:
        """Return the newest operations of a zone that preempt machines: one page."""

    # Permissions and other writers

    def granted(self, project: str, permissions: Sequence[str]) -> Collection[str]:
        """Return those of the permissions that we have in the project."""

    def autoscalers(self, place: Place) -> Sequence[Autoscaler]:
        """Return Compute Engine's own autoscalers."""

    def group_errors(self, ref: Ref) -> Sequence[GroupError]:
        """Return the errors that the group's manager met lately, the newest first: one page."""

    def regional_managers(self, project: str, region: str) -> Sequence[Manager]:
        """Return the groups that are spread over a region."""
