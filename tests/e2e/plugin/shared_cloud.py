"""The provider of the end-to-end tests: the fake provider, whose cloud lives in the test and outlives the daemon."""

import threading
from collections.abc import Sequence
from multiprocessing.connection import Client
from typing import Any, cast

from nodewright import spec
from nodewright.spec import hookimpl
from nodewright_fake import CloudOptions, FakeCloud, FakeProvider
from nodewright_fake.faults import Faults
from nodewright_fake.old_reads import OldReads


class RemoteCloud:
    """Answers like the cloud behind the socket ``address``, from which it gets every answer."""

    def __init__(self, address: str, clock: spec.Clock) -> None:
        self.options: CloudOptions
        self._line = Client(address)
        self._lock = threading.Lock()
        self.options = self.ask("options")
        self.faults = Faults(clock, ())
        self.old_reads = OldReads(self.options.old_reads, clock.now())

    def ask(self, what: str, *args: object, **kwargs: object) -> Any:
        with self._lock:
            self._line.send((what, args, kwargs))
            succeeded, answer = self._line.recv()
        if succeeded:
            return answer
        kind, said, details = answer
        error = kind.__new__(kind)
        error.args, error.__dict__ = said, details
        raise error

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: self.ask(name, *args, **kwargs)


class SharedProvider(FakeProvider):
    """Option ``address``: where the cloud listens. ``busy_seconds``: for so long the first refresh computes."""

    def __init__(self, context: spec.ProviderContext) -> None:
        remote = RemoteCloud(str(context.options["address"]), context.clock)
        super().__init__(context, cast("FakeCloud", remote))
        self._busy_seconds = float(context.options.get("busy_seconds", 0.0))

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        until = self._clock.now() + self._busy_seconds
        self._busy_seconds = 0.0
        while self._clock.now() < until:
            sum(number * number for number in range(100_000))
        return super().refresh(wanted)

    @hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        options = self.cloud.options
        # No notices are given here; the thread that waits for them would ask without end.
        offered = frozenset(spec.Capability) - frozenset(options.switched_off) - {spec.Capability.INTERRUPTION}
        return spec.ProviderInfo(name="shared", spec_version=(1, 0), capabilities=offered)

    @hookimpl
    def provisioning_classes(self) -> Sequence[spec.CloudProvisioningClass]:
        return ()
