"""What the daemon tells by HTTP, read-only."""

from nodewright.adapters.web.health import HealthCheck
from nodewright.adapters.web.server import Page, Pages, Query, WebServer, is_loopback, parse_address

__all__ = ["HealthCheck", "Page", "Pages", "Query", "WebServer", "is_loopback", "parse_address"]
