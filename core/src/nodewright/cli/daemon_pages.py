"""The daemon's pages. What shows pods or nodes is never among those that anybody may read."""

from collections.abc import Callable, Mapping

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST

from nodewright.adapters.kube.caches import Caches
from nodewright.adapters.metrics import Metrics
from nodewright.adapters.web import HealthCheck, Page
from nodewright.engine.autoscaler import LoopReport
from nodewright.model.moment import format_moment
from nodewright.model.quantity import Quantity

Pages = Mapping[str, Callable[[], Page]]


def public_pages(metrics: Metrics, health: HealthCheck, caches: Caches) -> Pages:
    """/metrics, /health-check and /readyz."""

    def check() -> Page:
        problem = health.problem()
        return Page(f"Error: {problem}\n".encode(), 500) if problem else Page(b"OK\n")

    def ready() -> Page:
        missing = caches.missing()
        return Page(f"not listed yet: {', '.join(missing)}\n".encode(), 503) if missing else Page(b"OK\n")

    return {
        "/metrics": lambda: Page(metrics.page(), content_type=CONTENT_TYPE_LATEST),
        "/health-check": check,
        "/readyz": ready,
    }


def debug_pages(last_report: Callable[[], LoopReport | None]) -> Pages:
    """/snapshotz: the cluster as the last loop saw it, in CA's words."""

    def snapshot() -> Page:
        report = last_report()
        if report is None or report.state is None:
            return Page(b'{"Error": "no loop has seen the cluster yet"}\n', 500, "application/json")
        seen = report.state.observation
        document = {
            "NodeList": [{"Node": node, "Pods": seen.snapshot.pods(row)} for row, node in seen.snapshot.nodes()],
            "UnscheduledPods": seen.pending,
            "TemplateNodes": {str(ref): {"Node": group.template} for ref, group in seen.groups.items()},
            "StartTimestamp": format_moment(report.started),
            "EndTimestamp": format_moment(report.finished),
            "Error": report.problem,
        }
        return Page(_ENCODER.encode(document), content_type="application/json")

    return {"/snapshotz": snapshot}


def _text(value: object) -> str:
    if isinstance(value, Quantity):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no part of a picture")


_ENCODER = msgspec.json.Encoder(enc_hook=_text)
