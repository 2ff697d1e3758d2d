import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewright.model.errors import ConfigError
from nodewright.model.yaml_text import MAX_BYTES, load_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", {"a": 1}),
        ("[0, -3, +4, 010, 0x1f, 0o17]", [0, -3, 4, 8, 31, 15]),
        ("[1.5, .5, 1e3, -2.5e-1, 1.]", [1.5, 0.5, 1000.0, -0.25, 1.0]),
        ("[true, no, On, OFF]", [True, False, True, False]),
        ("[~, null, '', NULL]", [None, None, "", None]),
        (
            "[1:30, 12:30:00, 2026-01-01, 2026-01-01T00:00:00Z]",
            ["1:30", "12:30:00", "2026-01-01", "2026-01-01T00:00:00Z"],
        ),
        ("['1', \"true\", !!str 3, ! 4]", ["1", "true", "3", "4"]),
        ("[y, n, 1_000, 1e3000000, +, '-', .]", ["y", "n", "1_000", "1e3000000", "+", "-", "."]),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3", {"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 3}}),
        ("a: {<<: [{p: 1}, {p: 2, q: 2}]}", {"a": {"p": 1, "q": 2}}),
        ("'<<': 1", {"<<": 1}),
        ("&k a: *k", {"a": "a"}),
        ("|\n  text\n", "text\n"),
    ],
)
def test_plain_data_comes_out(text: str, value: object) -> None:
    assert load_yaml(text, "f") == [value]


def test_infinity_and_not_a_number_are_numbers() -> None:
    [[up, down, nothing]] = load_yaml("[.inf, -.Inf, .nan]", "f")
    assert (up, down) == (math.inf, -math.inf)
    assert math.isnan(nothing)


def test_documents_are_kept_apart() -> None:
    assert load_yaml("a: &x 1\n---\n---\nb: 2\n", "f") == [{"a": 1}, None, {"b": 2}]
    assert load_yaml("# nothing\n", "f") == []
    assert load_yaml(b"\xef\xbb\xbfa: 1", "f") == [{"a": 1}]


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [", "f.yaml line 2: did not find expected node content"),
        ("a: 1\nb: 2\na: 3", "f.yaml line 3: the key a is given twice"),
        ("{1: a, true: b}", "f.yaml line 1: the key True is given twice"),  # one key in Python
        ("a: *b", "f.yaml line 1: the alias *b stands for nothing, or contains itself"),
        ("a: &a [*a]", "f.yaml line 1: the alias *a stands for nothing, or contains itself"),
        ("a: &a 1\n---\nb: *a", "f.yaml line 3: the alias *a stands for nothing, or contains itself"),
        (BOMB, "f.yaml line 6: the aliases stand for more than 100000 values"),
        ("? [a]\n: 1", "f.yaml line 1: a key must be a plain value"),
        ("a: &a [1]\n*a : 2", "f.yaml line 2: a key must be a plain value"),
        ("<<: 3", "f.yaml line 1: << takes a mapping or a list of them, not the number 3"),
        (
            "a: !!python/object:os.system x",
            "f.yaml line 1: the tag tag:yaml.org,2002:python/object:os.system is not understood here",
        ),
        ("a: !!int x", "f.yaml line 1: the tag tag:yaml.org,2002:int is not understood here"),
        ("!!set {a}", "f.yaml line 1: the tag tag:yaml.org,2002:set is not understood here"),
        ("[" * 100_000, "f.yaml line 1: nested more than 100 deep"),
        ("- " * 100_000, "f.yaml line 1: nested more than 100 deep"),
        ("{a: " * 100_000, "f.yaml line 1: nested more than 100 deep"),
        ("a: 'x", "f.yaml line 1: found unexpected end of stream"),
        ("a: \x07", "f.yaml: not valid YAML: unacceptable character #x0007: control characters are not allowed"),
        (" " * (MAX_BYTES + 1), "f.yaml: more than 64 MiB of YAML; JSON may be larger"),
        (b"\xff\xfe\x00", "f.yaml: not UTF-8 text"),
        ("a: \ud800", "f.yaml: not UTF-8 text"),
    ],
)
def test_what_is_wrong_is_one_sentence(text: str | bytes, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_yaml(text, "f.yaml")
    assert str(caught.value) == sentence


@pytest.mark.parametrize("key", ["true", "1", "0.5", "null", "yes"])
def test_kubernetes_wants_keys_that_are_strings(key: str) -> None:
    with pytest.raises(ConfigError, match=f"f line 2: the key {key} must be a string here: quote it"):
        load_yaml(f"a: 1\n{key}: b", "f", string_keys=True)
    assert load_yaml(f"a: 1\n'{key}': b", "f", string_keys=True) == [{"a": 1, key: "b"}]


@given(st.one_of(st.text(), st.binary(), st.text("-:[]{}&*!|>'\"%@#?,ab0 \n<")))
def test_any_text_is_data_or_refused(text: str | bytes) -> None:
    refusal = ""
    try:
        assert isinstance(load_yaml(text, "f"), list)
    except ConfigError as error:
        refusal = str(error)
    assert "\n" not in refusal
