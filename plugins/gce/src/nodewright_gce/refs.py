"""URLs and provider ids of Compute Engine, and how they are parsed."""

import re
from typing import NamedTuple

from nodewright.spec import ConfigError

HOST = "https://www.googleapis.com/compute/v1"
_GROUP = re.compile(r"https://.*/projects/(?P<project>[^/]+)/zones/(?P<zone>[^/]+)/instanceGroups/(?P<name>.+)")
_REGIONAL = re.compile(
    r"https://.*/projects/(?P<project>[^/]+)/regions/(?P<region>[^/]+[0-9])/instanceGroups/(?P<name>.+)"
)
_INSTANCE = re.compile(r"https://.*/projects/(?P<project>[^/]+)/zones/(?P<zone>[^/]+)/instances/(?P<name>.+)")
_OWNER = re.compile(r"projects/[^/]+/zones/(?P<zone>[^/]+)/instanceGroupManagers/(?P<name>.+)")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_TEMPLATE = re.compile(
    r"(?:.*/)?projects/(?P<project>[^/]+)/(?:global|regions/(?P<region>[^/]+))/instanceTemplates/(?P<name>[^/]+)"
)


class Place(NamedTuple):
    """One zone of one project; for regional groups ``zone`` is a region (us-east1)."""

    project: str
    zone: str

    @property
    def is_regional(self) -> bool:
        """Whether this is a region: names of regions end with a digit, those of zones with a letter."""
        return self.zone[-1:].isdigit()

    @property
    def region(self) -> str:
        """The region, or that of the zone."""
        return self.zone if self.is_regional else self.zone.rpartition("-")[0]


class Ref(NamedTuple):
    """An instance group (with its manager) or an instance, by name and zone. The zone of a regional group is its region."""

    project: str
    zone: str
    name: str

    @property
    def place(self) -> Place:
        return Place(self.project, self.zone)

    @property
    def group_id(self) -> str:
        """The URL of the instance group, as CA writes it."""
        where = f"{'regions' if self.place.is_regional else 'zones'}/{self.zone}"
        return f"{HOST}/projects/{self.project}/{where}/instanceGroups/{self.name}"

    @property
    def provider_id(self) -> str:
        """The ``spec.providerID`` of the instance's node."""
        return f"gce://{self.project}/{self.zone}/{self.name}"

    @property
    def instance_path(self) -> str:
        """The path of the instance in requests."""
        return f"projects/{self.project}/zones/{self.zone}/instances/{self.name}"


class TemplateRef(NamedTuple):
    """An instance template; without a region it is global."""

    project: str
    region: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} (region {self.region})" if self.region else self.name


def parse_group_url(url: str) -> Ref:
    """Return the group of the URL, whose host is ignored; raise ConfigError that shows the expected form."""
    found = _GROUP.fullmatch(url)
    if found is not None:
        return Ref(found["project"], found["zone"], found["name"])
    regional = _REGIONAL.fullmatch(url)
    if regional is not None:
        return Ref(regional["project"], regional["region"], regional["name"])
    raise ConfigError(
        f"{url} is not of the form https://…/projects/<project>/zones/<zone>/instanceGroups/<name>"
        " (or regions/<region> in the place of the zone)"
    )


def parse_instance_url(url: str) -> Ref | None:
    """Return the instance of the URL; None: it is not the URL of an instance in a zone."""
    found = _INSTANCE.fullmatch(url)
    return Ref(found["project"], found["zone"], found["name"]) if found is not None else None


def parse_owner(created_by: str, project: str) -> Ref | None:
    """Return the group in an instance's ``created-by``. That has the project's number, so the caller gives its name."""
    found = _OWNER.fullmatch(created_by)
    return Ref(project, found["zone"], found["name"]) if found is not None else None


def template_name(url: str) -> str:
    """Return the last part of a template's URL, still escaped; "": its escapes are not valid."""
    return "" if _BAD_ESCAPE.search(url) else url.rpartition("/")[2]


def parse_template_url(url: str, project: str) -> TemplateRef:
    """Return the template of the URL; one without a project belongs to the group's project."""
    found = _TEMPLATE.fullmatch(url)
    if found is None:
        return TemplateRef(project, "", template_name(url))
    return TemplateRef(found["project"], found["region"] or "", template_name(url))
