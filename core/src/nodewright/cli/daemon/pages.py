"""The daemon's pages that anybody may read: nothing of pods or nodes is among them."""

from prometheus_client import CONTENT_TYPE_LATEST

from nodewright.adapters.kube.caches import Caches
from nodewright.adapters.metrics import Metrics
from nodewright.adapters.web import HealthCheck, Page, Pages, Query


def public_pages(metrics: Metrics, health: HealthCheck, caches: Caches) -> Pages:
    """/metrics, /health-check and /readyz."""

    def check(_: Query) -> Page:
        problem = health.problem()
        return Page(f"Error: {problem}\n".encode(), 500) if problem else Page(b"OK\n")

    def ready(_: Query) -> Page:
        missing = caches.missing()
        return Page(f"not listed yet: {', '.join(missing)}\n".encode(), 503) if missing else Page(b"OK\n")

    return {
        "/metrics": lambda _: Page(metrics.page(), content_type=CONTENT_TYPE_LATEST),
        "/health-check": check,
        "/readyz": ready,
    }
