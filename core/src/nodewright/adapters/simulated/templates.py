"""PodTemplates in a simulated cluster, as its API server keeps them."""

from msgspec.structs import replace

from nodewright.model.provisioning_request import PodTemplate


class PodTemplates:
    """``held`` by ``namespace/name``; another mapping after each change."""

    def __init__(self) -> None:
        self.held: dict[str, PodTemplate] = {}

    def put(self, template: PodTemplate) -> None:
        """Somebody creates the template, or changes the one of its name."""
        before = self.held.get(template.key)
        generation = before.metadata.generation + 1 if before is not None else 1
        fresh = replace(template, metadata=replace(template.metadata, generation=generation))
        self.held = {**self.held, template.key: fresh}

    def drop(self, key: str) -> None:
        """Somebody deletes it, if it is there."""
        self.held = {held: one for held, one in self.held.items() if held != key}
