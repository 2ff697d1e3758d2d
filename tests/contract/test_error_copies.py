"""An error that is kept and raised again, as by a cache, keeps all its fields."""

from typing import Any

import pytest

from nodewright import spec
from nodewright.model.errors import BadAnswer, OutcomeUnknown, ProviderError
from nodewright.spec.cache import NotYet, copy_error, unwrap

COMMON: dict[str, Any] = {"provider": "acme", "group_id": "web"}
SHORT: dict[str, Any] = {**COMMON, "code": "cores", "scope": spec.FailureScope.ACCOUNT, "bucket": "cores of eu-1"}
BUSY: dict[str, Any] = {**COMMON, "code": "rate", "retry_after": 40.0}
ERRORS = (
    spec.OutOfCapacity("none left", **SHORT),
    spec.QuotaExceeded("used up", **SHORT),
    spec.Throttled("too many calls", **BUSY),
    spec.OperationInProgress("locked", **BUSY),
    spec.TargetChanged("somebody resized it", actual=7, **COMMON),
    spec.AccessDenied("no permission", code="Forbidden", **COMMON),
    spec.NodeGroupNotFound("no such group", **COMMON),
    spec.ProviderUnavailable("reset", code="ECONNRESET", **COMMON),
    spec.ProviderError("odd", code="odd", **COMMON),
    OutcomeUnknown("in doubt", **COMMON),
    BadAnswer("no number", **COMMON),
    NotYet("not known yet", code="slow"),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_copy_has_every_field(error: ProviderError) -> None:
    copied = copy_error(error)
    assert copied is not error
    assert (type(copied), str(copied), copied.args) == (type(error), str(error), error.args)
    assert vars(copied) == vars(error)
    assert vars(copied)["code"] == error.code


def test_a_copy_is_changed_by_itself() -> None:
    first = copy_error(ERRORS[0])
    first.group_id = "another"
    assert ERRORS[0].group_id == "web"


def test_every_kind_of_error_is_tried() -> None:
    def kinds(kind: type[ProviderError]) -> set[type[ProviderError]]:
        return {kind}.union(*map(kinds, kind.__subclasses__()))

    public = {kind for kind in kinds(ProviderError) if kind.__module__ == "nodewright.model.errors"}
    assert {kind for kind in public if not kind.__subclasses__()} <= {type(error) for error in ERRORS}


def test_a_kept_error_is_raised_as_it_was() -> None:
    with pytest.raises(spec.Throttled) as raised:
        unwrap(ERRORS[2])
    assert (raised.value.retry_after, raised.value.code, raised.value.group_id) == (40.0, "rate", "web")
