"""One call of one hook: deadline, retries, timing and translation of errors, in one place."""

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import pluggy
from tenacity import RetryCallState, Retrying, retry_if_exception

from nodewright.adapters.provider.checks import Unfit, tellable, writable
from nodewright.adapters.provider.runner import CallRunner, CallTimedOut, NotStarted
from nodewright.model.clock import Clock
from nodewright.model.errors import BadAnswer, CloudBusy, ProviderError, ProviderUnavailable, Shortage
from nodewright.model.group import FailureScope, GroupRef
from nodewright.model.write_fence import WriteFence
from nodewright.spec.cache import copy_error
from nodewright.spec.hooks import WRITE_HOOKS

T = TypeVar("T")
Check = Callable[[Any], T]
_Key = tuple[str, str]

_MAX_BACKOFF_SECONDS = 10.0
# A busy cloud may ask for a longer pause, but gets no longer one than this.
_LONGEST_HOLD_SECONDS = 600.0
# How long a write waits for a busy cloud. If that was in vain, for a while no write of this hook waits at all: a loop must
# not block while another group could take the pods.
_PATIENCE_SECONDS = 10.0
_IMPATIENT_SECONDS = 300.0
# How long all reads of a provider together may wait within a minute: a cloud that is busy or unavailable is so for each
# of its groups.
_READ_PATIENCE_SECONDS = 20.0
_READ_WINDOW_SECONDS = 60.0
_NOTHING = (None, None, None)


class CallSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of time and of repeats for the calls to one provider.

    ``read_attempts`` bounds the attempts of a read that was throttled or unavailable; together with the waits between them
    they stay within ``deadline_seconds``. ``write_repeats`` bounds the repeats of a write that, as a re-read showed, had no
    effect. ``honours_retry_after``: a busy cloud is not called for as long as it asks, even in later loops; a write to a busy
    cloud is repeated for some seconds, and all reads together wait for some seconds.
    """

    deadline_seconds: float = 60.0
    read_attempts: int = 4
    write_repeats: int = 2
    honours_retry_after: bool = True
    max_abandoned_calls: int = 3
    parallel_calls: int = 8
    dry_run: bool = False


class HookStats(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one hook's calls and failures, the seconds spent in it, and its last error."""

    calls: int = 0
    errors: int = 0
    seconds: float = 0.0
    last_error: str = ""


class UnexpectedError(ProviderError):
    """The plugin raised an exception that is not a ProviderError; see ``__cause__``."""

    code = "unexpectedError"


class UnansweredCall(ProviderUnavailable):
    """The call was abandoned at its deadline: it may still take effect."""

    code = "timeout"


class HookCaller:
    """Calls the hooks of one provider; every failure leaves here as a ProviderError that names it.

    ``gate`` is asked right before each write, in the thread that makes it; None: every write may start.
    """

    def __init__(
        self,
        provider: str,
        hooks: pluggy.HookRelay,
        *,
        runner: CallRunner,
        clock: Clock,
        settings: CallSettings,
        gate: WriteFence | None = None,
    ) -> None:
        self._provider = provider
        self._hooks = hooks
        self._runner = runner
        self._clock = clock
        self._settings = settings
        self._gate = gate
        # For this many seconds after a write the cloud's listings may not show it; the cloud is not read until then.
        self.settles_after = 0.0
        # The plugin bridges late listings after its own writes: after these the core does not wait.
        self.remembers_writes = False
        # Epoch seconds. None: nobody knows when the process before this one wrote last. It may have been just before it ended.
        self._wrote_last: float | None = None
        self._stats: dict[str, HookStats] = {}
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str], tuple[Any, Any, Any]] = {}
        # By hook and group: the last CloudBusy error, when it came, and when the cloud may be called again.
        self._busy: dict[_Key, tuple[CloudBusy, float, float]] = {}
        self._impatient_until: dict[str, float] = {}
        # When reads of the last minute began to wait, and for how many seconds.
        self._read_waits: list[tuple[float, float]] = []

    def read(self, hook: str, check: Check[T], **arguments: object) -> T:
        """Call a read hook and return its checked result; try again while the cloud is busy or unavailable.

        If the cloud named a time in an earlier call, nothing is sent before then; a near time is waited for.
        """
        started = self._clock.now()
        self._respect_hold(
            _key(hook, arguments), lambda seconds: seconds <= _MAX_BACKOFF_SECONDS and self._claim_read_wait(seconds)
        )
        try:
            return self.once(hook, check, **arguments)
        except ProviderError as error:
            if not _is_passing(error):
                raise
            failed = [error]

        def attempt() -> T:
            if failed:  # the first attempt was made above, without tenacity: it costs more than a read that succeeds
                raise failed.pop()
            return self.once(hook, check, **arguments)

        answer: T = self._patience(started)(attempt)
        return answer

    def write(self, hook: str, check: Check[T], /, **arguments: object) -> T:
        """Call a write hook and return its checked result; repeat it briefly while the cloud is busy.

        A busy cloud did nothing, and the plugin compares the expected target in every call: repeating is safe. If the
        cloud asks for more time, the error is raised, and the caller plans something else meanwhile.
        """
        key, started = _key(hook, arguments), self._clock.now()
        is_patient = self._settings.honours_retry_after and self._impatient_until.get(hook, started) <= started
        self._respect_hold(key, lambda seconds: is_patient and seconds <= 1.0)
        patience = min(_PATIENCE_SECONDS, self._settings.deadline_seconds)
        busy: CloudBusy | None = None
        pause = 1.0
        while True:
            try:
                return self.once(hook, check, **arguments)
            except NotStarted as error:
                if busy is None:
                    raise
                raise busy from error
            except CloudBusy as error:
                busy = error
                wait, pause = max(error.retry_after, pause), min(_MAX_BACKOFF_SECONDS, 2 * pause)
                if not is_patient:
                    raise
                if self._clock.now() + wait > started + patience:
                    self._impatient_until[hook] = self._clock.now() + _IMPATIENT_SECONDS
                    raise
                self._clock.sleep(wait)

    def once(self, hook: str, check: Check[T], /, **arguments: object) -> T:
        """Call a hook exactly once and return its checked result."""
        group_id = str(arguments.get("group_id", ""))
        if hook == "refresh":
            self._let_writes_settle()
        started = self._clock.now()
        failed, told = True, ""
        try:
            answer = self._run(hook, arguments)
            if not self.remembers_writes:
                self._note_write(hook)
            checked = self._checked(hook, check, answer, group_id)
            failed = False
            self._busy.pop((hook, group_id), None)
        except ProviderError as error:
            error.provider = error.provider or self._provider
            error.group_id = error.group_id or group_id
            _make_fit(error)
            told = str(error)
            if is_unclear(error) and not self.remembers_writes:
                self._note_write(hook)
            self._note((hook, group_id), error)
            raise
        finally:
            self._record(hook, self._clock.now() - started, failed=failed, told=told)
        return checked

    def stats(self) -> Mapping[str, HookStats]:
        """Return the counts of each hook that was called."""
        with self._lock:
            return dict(self._stats)

    def note_last_write(self, at: float) -> None:
        """Note when a former process may last have written (epoch seconds; -inf: never, or nothing is decided by what is read)."""
        self._wrote_last = at

    def _note_write(self, hook: str) -> None:
        if hook in WRITE_HOOKS:
            self._wrote_last = self._clock.now()

    def _let_writes_settle(self) -> None:
        """Wait until listings show the last write. Do not wait if the clock was set back, and not in a dry run: it writes nothing."""
        if self._settings.dry_run:
            return
        now = self._clock.now()
        wrote_last = self._wrote_last = now if self._wrote_last is None else self._wrote_last
        left = wrote_last + self.settles_after - now
        if 0 < left <= self.settles_after:
            self._clock.sleep(left)

    def _note(self, key: _Key, error: ProviderError) -> None:
        """Remember until when the cloud asks not to be called; forget that after any other answer."""
        if isinstance(error, CloudBusy):
            now = self._clock.now()
            self._busy[key] = error, now, now + min(error.retry_after, _LONGEST_HOLD_SECONDS)
        elif not isinstance(error, NotStarted):
            self._busy.pop(key, None)

    def _respect_hold(self, key: _Key, may_wait: Callable[[float], bool]) -> None:
        """Wait until the cloud may be called again; raise its last error if ``may_wait`` refuses that many seconds."""
        if key not in self._busy or not self._settings.honours_retry_after:
            return
        error, since, until = self._busy[key]
        now = self._clock.now()
        if not since <= now < until:  # it is over, or the clock was set back
            return
        if not may_wait(until - now):
            held = copy_error(error)
            held.retry_after = until - now
            raise held
        self._clock.sleep(until - now)

    def _claim_read_wait(self, seconds: float) -> bool:
        """Return whether a read may wait that long now, and count it if so."""
        now = self._clock.now()
        with self._lock:
            self._read_waits = [wait for wait in self._read_waits if now - _READ_WINDOW_SECONDS < wait[0] <= now]
            if sum(waited for _, waited in self._read_waits) + seconds > _READ_PATIENCE_SECONDS:
                return False
            self._read_waits.append((now, seconds))
            return True

    def _patience(self, started: float) -> Retrying:
        def gives_up(state: RetryCallState) -> bool:
            spent = self._clock.now() - started + state.upcoming_sleep
            if state.attempt_number >= self._settings.read_attempts or spent > self._settings.deadline_seconds:
                return True
            return self._settings.honours_retry_after and not self._claim_read_wait(state.upcoming_sleep)

        return Retrying(
            retry=retry_if_exception(_is_passing), wait=_pause, stop=gives_up, sleep=self._clock.sleep, reraise=True
        )

    def _run(self, hook: str, arguments: Mapping[str, Any]) -> object:
        def call() -> object:
            if self._gate is not None and hook in WRITE_HOOKS:
                self._pass(self._gate, arguments)
            return getattr(self._hooks, hook)(**arguments)

        try:
            return self._runner.run(call, self._settings.deadline_seconds)
        except ProviderError:
            raise
        except CallTimedOut as error:
            raise UnansweredCall(f"{self._provider} did not answer {hook}: {error}") from error
        except (Exception, SystemExit) as error:
            raise UnexpectedError(f"{self._provider} raised {type(error).__name__} in {hook}: {error}") from error

    def _pass(self, gate: WriteFence, arguments: Mapping[str, Any]) -> None:
        spec = arguments.get("spec")
        group_id = spec.group_id if spec is not None else arguments.get("group_id", "")
        group = GroupRef(self._provider, group_id) if group_id else None
        why = gate.why_not(group, self._settings.deadline_seconds)
        if why:
            raise NotStarted(why)

    def _checked(self, hook: str, check: Check[T], answer: object, group_id: str) -> T:
        # The same immutable answer was checked before: in a quiet loop only changed answers are checked.
        last_answer, last_check, last_value = self._seen.get((hook, group_id), _NOTHING)
        if answer is last_answer and check is last_check:
            known: T = last_value
            return known
        try:
            value = check(answer)
        except Unfit as error:
            of_group = f" for {group_id}" if group_id else ""
            raise BadAnswer(f"plugin {self._provider}: hook {hook} answered {error}{of_group}") from error
        if isinstance(answer, (tuple, msgspec.Struct)):
            self._seen[hook, group_id] = (answer, check, value)
        return value

    def _record(self, hook: str, seconds: float, *, failed: bool, told: str) -> None:
        with self._lock:
            seen = self._stats.get(hook, HookStats())
            self._stats[hook] = HookStats(
                calls=seen.calls + 1,
                errors=seen.errors + failed,
                seconds=seen.seconds + seconds,
                last_error=told or seen.last_error,
            )


def is_unclear(error: ProviderError) -> bool:
    """Return whether a write may have taken effect although it failed."""
    if isinstance(error, NotStarted):
        return False
    return isinstance(error, (ProviderUnavailable, UnexpectedError, BadAnswer))


def _make_fit(error: ProviderError) -> None:
    """Correct wrong values in a plugin's error, so that the core can use and report it."""
    error.args, error.code = (tellable(str(error)),), writable(str(error.code))
    if isinstance(error, CloudBusy):
        given: object = error.retry_after
        is_fit = isinstance(given, (int, float)) and 0 <= given < math.inf
        error.retry_after = float(min(error.retry_after, _LONGEST_HOLD_SECONDS)) if is_fit else 1.0
    if isinstance(error, Shortage):
        scope: object = error.scope
        error.scope = scope if isinstance(scope, FailureScope) else FailureScope.GROUP
        error.bucket = writable(str(error.bucket))


def _is_passing(error: BaseException) -> bool:
    """Return whether another attempt may succeed. An abandoned call is not repeated: repeats would use up the workers."""
    return isinstance(error, (CloudBusy, ProviderUnavailable)) and not isinstance(error, (UnansweredCall, NotStarted))


def _pause(state: RetryCallState) -> float:
    """Return the seconds until the next attempt: as many as the cloud asked for, but at least 1, 2, 4 and so on."""
    error = state.outcome.exception() if state.outcome is not None else None
    backoff = min(_MAX_BACKOFF_SECONDS, 2.0 ** (state.attempt_number - 1))
    return max(error.retry_after, backoff) if isinstance(error, CloudBusy) else backoff


def _key(hook: str, arguments: Mapping[str, object]) -> _Key:
    return hook, str(arguments.get("group_id", ""))
