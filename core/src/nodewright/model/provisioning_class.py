"""ProvisioningClass objects: the classes of requests in a cluster, who may use them, and their limits."""

from nodewright.model.meta import Int64, Kube, LabelSelector, Object


class ClassLimits(Kube, frozen=True, kw_only=True):
    """The limits of all open requests of one namespace together; None: no limit."""

    pods: Int64 | None = None
    nodes: Int64 | None = None


class ProvisioningClassSpec(Kube, frozen=True, kw_only=True):
    """``provisioner`` is the class of the core or of a provider that provisions; empty: the object's own name.

    ``parameters`` apply to every request of the class. ``namespace_selector`` selects the namespaces that may use the
    class; None: all.
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
