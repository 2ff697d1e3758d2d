"""Names of things in Compute Engine: URLs, provider ids, and what is read from them."""

import re
from typing import NamedTuple

from nodewright.spec import ConfigError

HOST = "https://www.googleapis.com/compute/v1"
_GROUP = re.compile(r"https://.*/projects/(?P<project>[^/]+)/zones/(?P<zone>[^/]+)/instanceGroups/(?P<name>.+)")
_REGIONAL = re.compile(r"https://.*/projects/[^/]+/regions/[^/]+/instanceGroups/.+")
_INSTANCE = re.compile(r"https://.*/projects/(?P<project>[^/]+)/zones/(?P<zone>[^/]+)/instances/(?P<name>.+)")
_OWNER = re.compile(r"projects/[^/]+/zones/(?P<zone>[^/]+)/instanceGroupManagers/(?P<name>.+)")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_TEMPLATE = re.compile(
    r"(?:.*/)?projects/(?P<project>[^/]+)/(?:global|regions/(?P<region>[^/]+))/instanceTemplates/(?P<name>[^/]+)"
)


class Place(NamedTuple):
    """One zone of one project."""

    project: str
    zone: str

    @property
    def region(self) -> str:
        return self.zone.rpartition("-")[0]


class Ref(NamedTuple):
    """Something with a name in a zone: an instance group with its manager, or an instance."""

    project: str
    zone: str
    name: str

    @property
    def place(self) -> Place:
        return Place(self.project, self.zone)

    @property
    def group_id(self) -> str:
        """The URL of the instance group, as CA writes it."""
        return f"{HOST}/projects/{self.project}/zones/{self.zone}/instanceGroups/{self.name}"

    @property
    def provider_id(self) -> str:
        """``spec.providerID`` of the node that an instance becomes."""
        return f"gce://{self.project}/{self.zone}/{self.name}"

    @property
    def instance_path(self) -> str:
        """An instance as requests name it."""
        return f"projects/{self.project}/zones/{self.zone}/instances/{self.name}"


class TemplateRef(NamedTuple):
    """An instance template; without a region it is a global one."""

    project: str
    region: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} (region {self.region})" if self.region else self.name


def parse_group_url(url: str) -> Ref:
    """Raises ConfigError that says what a group's name looks like. The host of the URL is of no interest."""
    found = _GROUP.fullmatch(url)
    if found is not None:
        return Ref(found["project"], found["zone"], found["name"])
    if _REGIONAL.fullmatch(url):
        raise ConfigError(
            f"{url} is a regional group, which Compute Engine rebalances by itself; make one zonal group for each zone"
        )
    raise ConfigError(f"{url} is not of the form https://…/projects/<project>/zones/<zone>/instanceGroups/<name>")


def parse_instance_url(url: str) -> Ref | None:
    """None for what is no URL of an instance in a zone."""
    found = _INSTANCE.fullmatch(url)
    return Ref(found["project"], found["zone"], found["name"]) if found is not None else None


def parse_owner(created_by: str, project: str) -> Ref | None:
    """The group that an instance's ``created-by`` names, by the project's number: its name is that of the instance."""
    found = _OWNER.fullmatch(created_by)
    return Ref(project, found["zone"], found["name"]) if found is not None else None


def template_name(url: str) -> str:
    """The last part of a template's URL, escaped as it is; empty if the escapes are wrong."""
    return "" if _BAD_ESCAPE.search(url) else url.rpartition("/")[2]


def parse_template_url(url: str, project: str) -> TemplateRef:
    """A URL without a project is of the group's own."""
    found = _TEMPLATE.fullmatch(url)
    if found is None:
        return TemplateRef(project, "", template_name(url))
    return TemplateRef(found["project"], found["region"] or "", template_name(url))
