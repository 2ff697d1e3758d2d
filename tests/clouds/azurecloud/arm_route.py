"""What the players of Azure Resource Manager share: who answers what, and how one refuses."""

from typing import NamedTuple

from azurecloud.server import Answer


class Route(NamedTuple):
    """Who answers what, and on which of the SDK's models; a bracket stands for a list, no model for what it does not know."""

    method: str
    path: str
    permission: str
    play: str
    gives: str = ""
    takes: str = ""


class Refused(Exception):
    """Azure answers with an error."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(code)
        self.answer = Answer(status, {"error": {"code": code, "message": message}}, headers or {})
