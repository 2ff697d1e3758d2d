"""Constraints among the devices of one claim: equal or distinct attributes."""

from nodewright.model.devices import Device, DeviceAttribute, DeviceConstraint


def attribute_of(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """Return an attribute by its qualified name. An attribute without a domain has the driver's."""
    found = device.attributes.get(name)
    if found is None:
        domain, slash, bare = name.partition("/")
        if slash and domain == driver:
            found = device.attributes.get(bare)
    return found


class AttributeConstraint:
    """What the devices chosen so far say about one constraint of a claim."""

    def __init__(self, spec: DeviceConstraint) -> None:
        self.attribute = spec.match_attribute or spec.distinct_attribute
        self._is_distinct = not spec.match_attribute
        self._requests = frozenset(spec.requests)
        self._values: list[DeviceAttribute] = []

    def concerns(self, request: str, alternative: str) -> bool:
        """Return whether devices of a request, or of one of its alternatives, must obey."""
        names = self._requests
        return not names or request in names or (bool(alternative) and f"{request}/{alternative}" in names)

    def add(self, value: DeviceAttribute | None) -> bool:
        """Count one more device if it may have this value. Return whether it may."""
        if value is None or (self._values and (value in self._values) == self._is_distinct):
            return False
        self._values.append(value)
        return True

    def remove(self) -> None:
        """Undo ``add``."""
        self._values.pop()
