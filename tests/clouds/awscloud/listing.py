"""Rewrites moto's listings: the desired capacity that was asked for, and instances that are still on their way."""

import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

NAMESPACE = "http://autoscaling.amazonaws.com/doc/2011-01-01/"
_IN = f"{{{NAMESPACE}}}"

ET.register_namespace("", NAMESPACE)


def rewrite_groups(
    body: bytes,
    desired: Callable[[str], int | None],
    state: Callable[[str], str | None],
    members: Callable[[str], Mapping[str, str] | None],
) -> bytes:
    """``desired`` and other ``members`` by group and ``state`` by instance; None leaves what moto says."""
    root = ET.fromstring(body)  # noqa: S314 - moto's own answer
    for group in root.iterfind(f".//{_IN}AutoScalingGroups/{_IN}member"):
        name = group.findtext(f"{_IN}AutoScalingGroupName", "")
        wanted = desired(name)
        if wanted is not None:
            _set(group, "DesiredCapacity", str(wanted))
        for member, text in (members(name) or {}).items():
            _set(group, member, text)
        for instance in group.iterfind(f"{_IN}Instances/{_IN}member"):
            lifecycle = state(instance.findtext(f"{_IN}InstanceId", ""))
            if lifecycle is not None:
                _set(instance, "LifecycleState", lifecycle)
    return _text(root)


def without_instances(body: bytes) -> bytes:
    """Every group as an empty one that is asked for no machine."""
    root = ET.fromstring(body)  # noqa: S314 - moto's own answer
    for group in root.iterfind(f".//{_IN}AutoScalingGroups/{_IN}member"):
        _set(group, "DesiredCapacity", "0")
        for instances in group.iterfind(f"{_IN}Instances"):
            instances.clear()
    return _text(root)


def group_in(body: bytes, name: str) -> bytes:
    """One group of a listing, by its name."""
    [found] = [one for one in _groups_of(ET.fromstring(body)) if _name_of(one) == name]  # noqa: S314 - moto's own answer
    return bytes(ET.tostring(found, encoding="utf-8"))


def with_groups(body: bytes, others: Mapping[str, bytes]) -> bytes:
    """The listing with ``others`` (from ``group_in``, by name) in the place of the groups of these names."""
    if not others:
        return body
    root = ET.fromstring(body)  # noqa: S314 - moto's own answer
    for groups in root.iterfind(f".//{_IN}AutoScalingGroups"):
        for number, group in enumerate(groups):
            if _name_of(group) in others:
                groups[number] = ET.fromstring(others[_name_of(group)])  # noqa: S314 - made by group_in
    return _text(root)


def _groups_of(root: ET.Element) -> list[ET.Element]:
    return root.findall(f".//{_IN}AutoScalingGroups/{_IN}member")


def _name_of(group: ET.Element) -> str:
    return group.findtext(f"{_IN}AutoScalingGroupName", "")


def write_activities(activities: list[dict[str, str]]) -> bytes:
    """The answer of DescribeScalingActivities, the newest first."""
    root = ET.Element(f"{_IN}DescribeScalingActivitiesResponse")
    members = ET.SubElement(ET.SubElement(root, f"{_IN}DescribeScalingActivitiesResult"), f"{_IN}Activities")
    for activity in activities:
        member = ET.SubElement(members, f"{_IN}member")
        for name, value in activity.items():
            ET.SubElement(member, f"{_IN}{name}").text = value
    return _text(root)


def _text(root: ET.Element) -> bytes:
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _set(element: ET.Element, name: str, text: str) -> None:
    found = element.find(f"{_IN}{name}")
    if found is None:
        found = ET.SubElement(element, f"{_IN}{name}")
    found.text = text
