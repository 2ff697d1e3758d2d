"""What is exchanged with Compute Engine is recorded without secrets, and replayed without Google."""

from pathlib import Path

from gcecloud import GceCloud
from gcecloud.cloud import PROJECT, SECRET, ZONE
from nodewright.testkit import FakeClock
from recorded import record, replayed


def test_a_recording_has_no_secrets_and_replays_without_differences(
    cloud: GceCloud, clock: FakeClock, tmp_path: Path
) -> None:
    group_id = cloud.add_group(size=2)
    options = {"project": PROJECT, "zones": [ZONE], "endpoints": cloud.endpoints}
    text = record(
        "gce",
        tmp_path / "kept",
        clock,
        options,
        f"0:10:{group_id}",
        lambda client: client.increase_size(group_id, 2, 4),
    )
    secrets = (SECRET, "TPM_BOOTSTRAP_KEY", "Bearer", "token-1", "authorization", f"projects/{PROJECT}/")
    assert not [secret for secret in secrets if secret.lower() in text.lower()]
    assert "kube_reserved" in text
    told = replayed(tmp_path / "kept")
    assert told.differences == ()
    assert told.calls > 8
    assert "createInstances" in text
