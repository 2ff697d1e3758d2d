"""No secret gets into a recording, in whatever part of a request or an answer it stands."""

import json
import sys
from typing import Any

import pytest

from nodewright.adapters.provider.sanitizing import Sanitizer, secrets_of

# Of no account in the world; some have a form that gives them away, others only a place.
KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJub2RlIn0.c2lnbmF0dXJl-of_it"  # noqa: S105 - of nothing
GOOGLE = "ya29.a0AfH6SMBx-exAmple_token"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"
BOOTSTRAP = "07401b.f395accd246ae52d"
SAS = "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MFhZWg%3D%3D"
PLAIN = "correct horse battery"
SHARED = "c2hvcnQ/bm90/b25l+b2Y/YQ=="
SECRETS = (
    KEY,
    TOKEN,
    GOOGLE,
    "MIIEowIBAAKCAQEA",
    BOOTSTRAP,
    SAS,
    PLAIN,
    SHARED,
    "AKIAIOSFODNN7EXAMPLE",
    "IQoJb3JpZ2lu",
)
ACCOUNTS = ("123456789012", "8f4a1c9e-0000-4d5b-9c3a-2b1f0e7d6a55", "secret-project-77")

BODIES = {
    "json": json.dumps(
        {
            "access_token": PLAIN,
            "items": [{"key": "password", "value": PLAIN}, {"name": "note", "value": f"use {TOKEN}"}],
            "properties": {"osProfile": {"customData": PLAIN, "adminPassword": PLAIN}, "log": PEM},
            "id": f"/subscriptions/{ACCOUNTS[1]}/resourceGroups/nodes",
            "selfLink": f"https://compute.googleapis.com/compute/v1/projects/{ACCOUNTS[2]}/zones/us-east1-b",
            "inner": json.dumps({"secretAccessKey": PLAIN, "account": ACCOUNTS[0]}),
            "credentials": {"any": [PLAIN], "of": {"it": PLAIN}},
        }
    ),
    "xml": (
        f"<R><UserData>{PLAIN}</UserData><Arn>arn:aws:iam::{ACCOUNTS[0]}:role/n</Arn><ownerId>{ACCOUNTS[0]}</ownerId>"
        f"<Tags><member><Key>db-password</Key><Value>{PLAIN}</Value></member></Tags>"
        f"<Message>User AKIAIOSFODNN7EXAMPLE with {GOOGLE} may not &amp; {BOOTSTRAP}</Message></R>"
    ),
    "form": (
        f"Action=AssumeRoleWithWebIdentity&WebIdentityToken={TOKEN}&client_secret={PLAIN.replace(' ', '+')}"
        f"&Tags.member.1.Key=api-key&Tags.member.1.Value={PLAIN.replace(' ', '+')}&RoleArn=arn%3Aaws%3Aiam%3A%3A{ACCOUNTS[0]}%3Arole"
    ),
    "text": f"login failed: password={PLAIN.partition(' ')[0]}-horse token: {GOOGLE} key {KEY} for account {ACCOUNTS[0]}"
    f" at AccountName=a;AccountKey={SHARED};",
    "broken json": f'{{"token": "{TOKEN}", "a": ',
}


@pytest.mark.parametrize("form", BODIES)
def test_bodies_lose_secrets_and_accounts(form: str) -> None:
    said = Sanitizer().body(BODIES[form])
    assert not [secret for secret in (*SECRETS, *ACCOUNTS) if secret in said or secret.replace(" ", "+") in said]
    assert "correct-horse" not in said


def test_headers_are_dropped_and_what_they_held_is_taken_out_of_bodies() -> None:
    sanitizer = Sanitizer()
    kept = sanitizer.headers(
        {
            "Authorization": f"AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261127/us-east-1/ec2, Signature={'ab12' * 16}",
            "X-Amz-Security-Token": "IQoJb3JpZ2luX2VjEJr",
            "Cookie": f"session={PLAIN}",
            "Content-Type": "text/xml",
            "Date": "Fri, 27 Nov 2026 02:00:00 GMT",
        }
    )
    assert kept == {"content-type": "text/xml", "date": "Fri, 27 Nov 2026 02:00:00 GMT"}
    assert sanitizer.body(f"you sent {'ab12' * 16} and IQoJb3JpZ2luX2VjEJr") == "you sent redacted-2 and redacted-1"


def test_words_of_an_authorization_header_are_no_secrets() -> None:
    sanitizer = Sanitizer()
    sanitizer.headers(
        {
            "Authorization": f"AWS4-HMAC-SHA256 SignedHeaders=content-type;x-amz-content-sha256, Signature={'ab12' * 16}",
            "X-Amz-Content-SHA256": "x",
            "Content-Type": "text/xml",
        }
    )
    said = "SignedHeaders lacks content-type and x-amz-content-sha256"
    assert sanitizer.text(said) == said


def lines_of_text(sanitizer: Sanitizer) -> int:
    """Return how many lines of code run to sanitise a short text: loops count, and the clock does not."""
    count = 0

    def trace(frame: object, event: str, arg: object) -> Any:
        del frame, arg
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        sanitizer.text("any")
    finally:
        sys.settrace(before)
    return count


def test_what_differs_in_each_answer_is_not_looked_for_in_every_text() -> None:
    sanitizer = Sanitizer()
    least = lines_of_text(sanitizer)
    for number in range(20):
        guid = f"8f4a1c9e-0000-4d5b-9c3a-{number:012x}"
        listed = {"vmId": guid, "ownerId": guid, "nextToken": f"at {number} of /all+of=it", "etag": f"{number:032x}"}
        sanitizer.headers({"Authorization": f"Signature={number:064x}"})
        sanitizer.body(json.dumps(listed))
        sanitizer.text(
            f"https://h.example/?$skiptoken=at/{number}+of/all+of= X-Amz-Signature={number:064x} {number}{KEY}"
        )
    assert lines_of_text(sanitizer) == least
    sanitizer.learn(PLAIN)
    assert lines_of_text(sanitizer) > least


def test_a_guid_has_one_substitute_in_any_case_and_place() -> None:
    sanitizer = Sanitizer()
    first = sanitizer.value({"tenantId": ACCOUNTS[1].upper()})["tenantId"]
    said = sanitizer.text(f"/subscriptions/{ACCOUNTS[1]}/x and vm_{ACCOUNTS[1].upper()}-nic")
    assert said == f"/subscriptions/{first}/x and vm_{first}-nic"


def test_a_secret_with_a_known_form_that_its_field_gave_away_is_found_within_words() -> None:
    sanitizer = Sanitizer()
    sanitizer.body(f"it was {KEY}")
    sanitizer.value({"secretAccessKey": KEY})
    assert sanitizer.text(f"x={KEY}") == "x=redacted-1"


def test_addresses_lose_their_user_and_their_signature() -> None:
    said = Sanitizer().url(f"https://me:{KEY[:5]}pw@host.example/a?sig={SAS}&X-Amz-Signature=abc123&token=t0&page=2")
    assert said == "https://host.example/a?sig=redacted-1&X-Amz-Signature=redacted-2&token=redacted-3&page=2"


def test_variables_of_the_environment_are_known() -> None:
    environ = {"AWS_SECRET_ACCESS_KEY": "not-of-a-known-form", "ARM_CLIENT_SECRET": "s3cr3t", "HOME": "/root"}
    said = Sanitizer(secrets_of(environ)).text("not-of-a-known-form s3cr3t /root")
    assert said == "redacted-1 redacted-2 /root"


def test_equal_values_have_equal_substitutes_which_stay_as_they_are() -> None:
    sanitizer = Sanitizer()
    answer = json.dumps({"nextToken": PLAIN, "account": "arn:aws:iam::123456789012:role/n", "name": "eks-workers-1"})
    once = sanitizer.body(answer)
    assert json.loads(once) == {
        "nextToken": "redacted-1",
        "account": "arn:aws:iam::000000000001:role/n",
        "name": "eks-workers-1",
    }
    assert sanitizer.url(f"https://h.example/?NextToken={PLAIN.replace(' ', '+')}").endswith("NextToken=redacted-1")
    assert Sanitizer().body(once) == once


def test_names_switches_and_numbers_stay() -> None:
    kept = {
        "group": "eksctl-production-NodeGroup-workers-large",
        "id": "/resourceGroups/MC_myResourceGroup_myCluster_eastus/providers/Microsoft.Compute/virtualMachineScaleSets/aks-1",
        "disablePasswordAuthentication": True,
        "httpTokens": "required",
        "memory": 137438953472,
        "instance": "i-0123456789abcdef0",
    }
    assert Sanitizer().value(kept) == kept


HIDDEN = "hunter2 xyz"
URL = "http://bob:hunter2xyz@proxy:3128/a"
LEAKS = {
    "value before key": f"<Tag><Value>{HIDDEN}</Value><Key>db-password</Key></Tag>",
    "another element between": f"<m><Key>db-password</Key><ResourceType>x</ResourceType><Value>{HIDDEN}</Value></m>",
    "between, value first": f"<m><Value>{HIDDEN}</Value><ResourceType>x</ResourceType><Key>db-password</Key></m>",
    "names with a namespace": f"<a:Tag><a:Value>{HIDDEN}</a:Value>\n<!-- so --><a:Key>db-password</a:Key></a:Tag>",
    "names with a stem": f"<m><ParameterValue>{HIDDEN}</ParameterValue><ParameterKey>api-key</ParameterKey></m>",
    "key of CDATA": f"<Tag><Value>{HIDDEN}</Value><Key><![CDATA[db-password]]></Key></Tag>",
    "value of CDATA": f"<Tag><Key>db-password</Key><Value><![CDATA[{HIDDEN}]]></Value></Tag>",
    "CDATA": f"<R><Password><![CDATA[{HIDDEN}]]></Password></R>",
    "CDATA in two parts": "<R><Password>hunter2<!-- --><![CDATA[ xyz]]></Password></R>",
    "deep in a secret": f"<R><UserData><Value>{HIDDEN}</Value></UserData></R>",
    "a structure as value": f"<Tag><Value><String>{HIDDEN}</String></Value><Key>db-password</Key></Tag>",
    "attributes": f"<add value='{HIDDEN}' key='db-password'/><Property Name=\"password\">{HIDDEN}</Property>",
    "an attribute": f'<R><login password="{HIDDEN}"/><Password value="{HIDDEN}"/></R>',
    "cut off": f"<R><Tag><Key>db-password</Key><Value>{HIDDEN}",
    "not well-formed": f"<html><br><p><Tag><Value>{HIDDEN}</Value></b><Key>db-password</Key></Tag>",
    "XML in XML": f"<R><Log>&lt;Tag&gt;&lt;Value&gt;{HIDDEN}&lt;/Value&gt;&lt;Key&gt;db-password&lt;/Key&gt;&lt;/Tag&gt;</Log></R>",
    "JSON pair": json.dumps({"Value": HIDDEN, "ResourceType": "x", "Key": "db-password"}),
    "JSON with a stem": json.dumps({"TagValue": HIDDEN, "TagKey": "db-password", "Name": "x"}),
    "JSON values": json.dumps({"Values": [HIDDEN], "Name": "tag:db-password"}),
    "JSON after a space": json.dumps({"log": f' {{"pwd": "{HIDDEN}"}}'}),
    "JSON names": json.dumps({"pwd": HIDDEN, "passphrase": HIDDEN, "passwd": HIDDEN, "db_pass": HIDDEN}),
    "form": "Tag.1.Value=hunter2+xyz&Tag.1.Key=db-password&Filter.1.Value.1=hunter2+xyz&Filter.1.Name=tag%3Aapi-key",
    "quoted": f"it has password=\"{HIDDEN}\" and passwd: '{HIDDEN}'",
    "quoted with an escape": 'password="a\\"hunter2 xyz" and so on',
    "cut in quotes": f'{{"password": "{HIDDEN}',
    "escaped JSON": f'{{"log": "{{\\"password\\": \\"{HIDDEN}\\"}}"',
    "pair of two words": "token: Bearer hunter2xyz",
    "pwd": "error: pwd=hunter2xyz; DB_PWD: hunter2xyz",
    "passphrase": "passphrase: hunter2xyz passwd=hunter2xyz",
    "URL in text": f"cannot reach {URL}",
    "URL in JSON": json.dumps({"proxy": URL, "all": [f"NO_PROXY=x HTTP_PROXY={URL}"]}),
    "URL in broken JSON": '{"proxy": "http:\\/\\/bob:hunter2xyz@proxy:3128", ',
    "URL in XML": f"<R><Proxy>{URL}</Proxy><a href='{URL}'/></R>",
    "URL in a form": "proxy=http%3A%2F%2Fbob%3Ahunter2xyz%40proxy.example%3A3128",
    "URL with signs in its password": "git+ssh://bob:p@hunter2xyz/a@proxy.example and postgres://hunter2xyz@db/x",
}


@pytest.mark.parametrize("place", LEAKS)
def test_a_secret_is_found_in_any_order_and_notation(place: str) -> None:
    said = Sanitizer().body(LEAKS[place])
    assert "hunter2" not in said
    assert " xyz" not in said
    assert "redacted" in said or "URL" in place


def test_a_url_keeps_its_place_without_its_user() -> None:
    assert Sanitizer().value({"proxy": URL})["proxy"] == "http://proxy:3128/a"
    for kept in ("https://h.example:8080/a@b", "https://h.example/@scope/x", "oci://h.example/x?at=me:1@2"):
        assert Sanitizer().text(kept) == kept


def test_xml_without_secrets_stays_as_it_is_and_says_the_same() -> None:
    kept = (
        '<?xml version="1.0"?>\n<!DOCTYPE a>\n<R xmlns="https://h.example/doc/2016/">\n <a b="1"/><Message>1 &lt; 2 &amp; "3"</Message>'
        "<Tag><Value>blue</Value><Key>team</Key></Tag><!-- so --><httpTokens>required</httpTokens>\n</R>"
    )
    assert Sanitizer().body(kept) == kept
    quote = '<R><Message>no token: "abc</Message><Next>1</Next></R>'
    assert Sanitizer().body(quote) == '<R><Message>no token: "redacted-1</Message><Next>1</Next></R>'
    assert Sanitizer().body("<<< 1 < 2") == "<<< 1 < 2"
    assert Sanitizer().body("<R>1 <b>2</b> 3</R>") == "<R>1 <b>2</b> 3</R>"


def test_a_secret_that_xml_gives_away_late_is_replaced_before_that_too() -> None:
    said = Sanitizer().body(
        "<R><Message>hunter2xyz</Message><Tag><Value>hunter2xyz</Value><Key>password</Key></Tag></R>"
    )
    assert said == "<R><Message>redacted-1</Message><Tag><Value>redacted-1</Value><Key>password</Key></Tag></R>"
