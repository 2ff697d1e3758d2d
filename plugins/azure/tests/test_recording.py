"""What is exchanged with Azure is recorded without secrets, and replayed without Azure."""

from pathlib import Path

from azurecloud import AzureCloud
from azurecloud.cloud import CLIENT, SECRET, TENANT
from nodewright.testkit import FakeClock
from recorded import record, replayed


def test_a_recording_has_no_secrets_and_replays_without_differences(
    cloud: AzureCloud, clock: FakeClock, tmp_path: Path
) -> None:
    name = cloud.add_set(capacity=2, tags={"password": "a b c", "team": "core"})
    text = record(
        "azure", tmp_path, clock, cloud.options, f"0:10:{name}", lambda client: client.increase_size(name, 2, 4)
    )
    secrets = (SECRET, TENANT, CLIENT, "Bearer", "a b c", "authorization", "subscriptions/sub/")
    assert not [secret for secret in secrets if secret.lower() in text.lower()]
    assert '"team"' in text
    told = replayed(tmp_path)
    assert told.differences == ()
    assert told.calls > 6
