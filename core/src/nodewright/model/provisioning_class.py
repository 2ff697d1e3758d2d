"""Which classes of requests there are in a cluster, for whom, and how much each may hold (seed 004's possible extension)."""

from nodewright.model.meta import Int64, Kube, LabelSelector, Object


class ClassLimits(Kube, frozen=True, kw_only=True):
    """What the open requests of one namespace may hold together; None: any number."""

    pods: Int64 | None = None
    nodes: Int64 | None = None


class ProvisioningClassSpec(Kube, frozen=True, kw_only=True):
    """``provisioner`` is the class of the core, or of a provider, that does the work; empty: the one of the object's name.

    ``parameters`` hold for every request of the class. ``namespace_selector`` chooses the namespaces that may use it;
    None: every one.
    """

    provisioner: str = ""
    parameters: dict[str, str] = {}
    namespace_selector: LabelSelector | None = None
    limits: ClassLimits = ClassLimits()


class ProvisioningClass(Object, frozen=True, kw_only=True):
    """One class that requests may name."""

    spec: ProvisioningClassSpec = ProvisioningClassSpec()

    @property
    def provisioner(self) -> str:
        return self.spec.provisioner or self.name
