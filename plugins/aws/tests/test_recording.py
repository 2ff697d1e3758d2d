"""What is exchanged with AWS is recorded without secrets, and replayed without AWS."""

from pathlib import Path

from awscloud import AwsCloud
from awscloud.cloud import CREDENTIALS
from awscloud.proxy import refuse
from mishaps import Mishap
from nodewright.testkit import FakeClock
from recorded import record, replayed

ACCOUNT = "123456789012"


def test_a_recording_has_no_secrets_and_replays_without_differences(
    cloud: AwsCloud, clock: FakeClock, tmp_path: Path
) -> None:
    password = "bm90IG9mIGEga25vd24gZm9ybQ=="  # noqa: S105 - "not of a known form"
    launch = {"LaunchTemplateName": cloud.add_template(UserData=password), "Version": "$Latest"}
    name = cloud.add_group(size=2, tags={"db-password": password, "team": "core"}, LaunchTemplate=launch)
    group_id, throttled = name, refuse("Throttling", "Rate exceeded for AKIAIOSFODNN7EXAMPLE")
    for mishap in (throttled, Mishap.LOST):
        cloud.mishaps.plan("DescribeAutoScalingGroups", mishap)

    text = record(
        "aws", tmp_path, clock, cloud.options, f"0:10:{name}", lambda client: client.increase_size(group_id, 2, 4)
    )

    secrets = (password, *CREDENTIALS.values(), "AKIAIOSFODNN7EXAMPLE", ACCOUNT, "Signature=", "authorization")
    assert not [secret for secret in secrets if secret.lower() in text.lower()]
    assert "<Key>team</Key>" in text
    told = replayed(tmp_path)
    assert told.differences == ()
    assert told.calls > 8
    assert "SetDesiredCapacity" in text


def test_a_changed_answer_is_told(cloud: AwsCloud, clock: FakeClock, tmp_path: Path) -> None:
    name = cloud.add_group(size=2)
    record("aws", tmp_path, clock, cloud.options, f"0:10:{name}", lambda client: client.refresh())
    for path in tmp_path.glob("*/*.exchange.json"):
        text = path.read_text()
        path.write_text(text.replace("<DesiredCapacity>2<", "<DesiredCapacity>3<"))
    told = [(one.what, one.recorded, one.now) for one in replayed(tmp_path).differences]
    assert told == [(f"target_size({name})", "2", "3")]
