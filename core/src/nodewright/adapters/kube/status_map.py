"""The status ConfigMap: written when something in it changed, and every minute so that readers see that we live."""

import math
from datetime import UTC, datetime
from typing import Any

import yaml

from nodewright.adapters.kube.api import ApiError
from nodewright.adapters.kube.config_maps import ConfigMaps, StoredMap
from nodewright.adapters.kube.status_document import Transitions, make_document, starting_document, without_times
from nodewright.clusterstate.state import ClusterState
from nodewright.planner.plan import Plan

UPDATED_ANNOTATION = "cluster-autoscaler.kubernetes.io/last-updated"
_KEY = "status"
_ANEW_SECONDS = 60.0
# libyaml's where it is there: of 500 groups it makes 0.4 MB in a third of a second, and Python's own in more than one.
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class StatusMap:
    """One ConfigMap, for one writer. A write that fails is tried again with the next loop, and never fails the loop."""

    def __init__(self, maps: ConfigMaps, name: str) -> None:
        self.problem = ""
        self.writes = 0
        self._maps = maps
        self._name = name
        self._held: StoredMap | None = None
        self._transitions = Transitions()
        self._shown: Any = None
        self._shown_at = -math.inf

    @property
    def uid(self) -> str:
        """That of the object that events are about; empty until it was written."""
        return self._held.uid if self._held is not None else ""

    def start(self, now: float) -> None:
        self._show(starting_document(), now)

    def update(self, state: ClusterState, plan: Plan) -> None:
        self._show(make_document(state, plan, self._transitions), state.now)

    def remove(self) -> None:
        """At the end of an orderly process."""
        try:
            self._maps.delete(self._name)
        except ApiError as error:
            self.problem = str(error)

    def _show(self, document: dict[str, Any], now: float) -> None:
        news = without_times(document)
        if news == self._shown and now - self._shown_at < _ANEW_SECONDS:
            return
        at = datetime.fromtimestamp(now, tz=UTC).strftime("%Y-%m-%d %H:%M:%S.%f +0000 UTC")
        text = yaml.dump({**document, "time": at}, Dumper=_DUMPER, sort_keys=True)
        try:
            self._write(text, at)
        except ApiError as error:
            self.problem, self._held = str(error), None
            return
        self.problem, self._shown, self._shown_at = "", news, now
        self.writes += 1

    def _write(self, text: str, at: str) -> None:
        held = self._held or self._maps.read(self._name) or StoredMap()
        annotations = {**held.annotations, UPDATED_ANNOTATION: at}
        written = StoredMap(data={_KEY: text}, labels=held.labels, annotations=annotations, version=held.version)
        self._held = self._maps.write(self._name, written)
