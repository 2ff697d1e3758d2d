"""The contract suite over the wire: nodewright-fake behind serve-externalgrpc, consumed by the plugin, over TLS."""

from collections.abc import Callable

import pytest

from nodewright.testkit.contract import ContractOutcome, ContractWorld, ProviderContract, run_contract

MakeWorld = Callable[..., ContractWorld]
NO_PRICES = "pricing is switched off for a: the server does not offer PricingNodePrice"
SWITCHED_OFF = {
    "group_options_start_from_the_defaults": "group_options is switched off for a: the server does not offer"
    " NodeGroupGetOptions",
    "machines_cost_something": NO_PRICES,
    "prices_change_only_with_a_refresh": NO_PRICES,
}


class TestExternalGrpc(ProviderContract):
    @pytest.fixture(autouse=True)
    def _serve(self, serve: MakeWorld) -> None:
        self.serve = serve

    def contract_world(self) -> ContractWorld:
        return self.serve(gpu_resources=["nvidia.com/gpu"])


@pytest.mark.parametrize(
    ("served", "options"),
    [
        pytest.param({"placeholder_failures": True}, {}, marks=pytest.mark.slow),
        pytest.param({"refresh_interval": "10m"}, {}, marks=pytest.mark.slow),
        ({"switched_off": ["pricing", "group_options", "fast_failure_detection"]}, {"detect_failures": False}),
    ],
    ids=["placeholders", "caches", "bare"],
)
def test_variants_keep_the_contract(serve: MakeWorld, served: dict[str, object], options: dict[str, object]) -> None:
    results = run_contract(lambda: serve(served, **options))
    assert [r for r in results if r.outcome == ContractOutcome.FAILED] == []
    off = {r.check: r.reason for r in results if "is switched off" in r.reason}
    assert off == (SWITCHED_OFF if "switched_off" in served else {})
