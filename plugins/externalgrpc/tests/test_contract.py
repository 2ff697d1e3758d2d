"""The contract suite over the wire: nodewright-fake behind serve-externalgrpc, consumed by the plugin, over TLS."""

from collections.abc import Callable

import pytest

from nodewright.testkit.contract import ContractOutcome, ContractWorld, ProviderContract, run_contract

MakeWorld = Callable[..., ContractWorld]


class TestExternalGrpc(ProviderContract):
    @pytest.fixture(autouse=True)
    def _serve(self, serve: MakeWorld) -> None:
        self.serve = serve

    def contract_world(self) -> ContractWorld:
        return self.serve(gpu_resources=["nvidia.com/gpu"])


@pytest.mark.parametrize(
    ("served", "options"),
    [
        ({"placeholder_failures": True}, {}),
        ({"refresh_interval": "10m"}, {}),
        ({"switched_off": ["pricing", "group_options", "fast_failure_detection"]}, {"detect_failures": False}),
    ],
    ids=["placeholders", "caches", "bare"],
)
def test_variants_keep_the_contract(serve: MakeWorld, served: dict[str, object], options: dict[str, object]) -> None:
    results = run_contract(lambda: serve(served, **options))
    failed = {r.check: r.reason for r in results if r.outcome == ContractOutcome.FAILED}
    # The suite asks by what a provider declares; a group whose server offers no prices answers with that refusal.
    asked_all_the_same = {"prices_are_proportional_to_time"}
    assert set(failed) == (asked_all_the_same if "switched_off" in served else set()), failed
