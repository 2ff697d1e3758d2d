from collections.abc import Callable
from typing import Any

import pytest

from nodewright.model.errors import ConfigError
from nodewright.model.limits import (
    GIB,
    MinMax,
    NodeGroupFlag,
    ResourceLimits,
    make_resource_limits,
    parse_gpu_limits,
    parse_memory_limits,
    parse_min_max,
    parse_node_group_flag,
)
from nodewright.model.settings import LimitSettings


def test_the_forms_of_limits() -> None:
    assert parse_min_max("0:320000") == MinMax(0, 320000)
    assert parse_min_max("5:5") == MinMax(5, 5)
    assert parse_memory_limits("1:2") == MinMax(GIB, 2 * GIB)
    assert parse_gpu_limits(["a100:1:2", "t4:0:0"]) == {"a100": MinMax(1, 2), "t4": MinMax(0, 0)}
    assert parse_node_group_flag("1:10:https://cloud/zones/a:b") == NodeGroupFlag(1, 10, "https://cloud/zones/a:b")


@pytest.mark.parametrize(
    ("parse", "source", "sentence"),
    [
        (parse_min_max, "5", "'5' is not of the form min:max"),
        (parse_min_max, "1:2:3", "'1:2:3' is not of the form min:max"),
        (parse_min_max, "a:2", "'a:2': 'a' is not a whole number from 0 up"),
        (parse_min_max, "-1:2", "'-1:2': '-1' is not a whole number from 0 up"),
        (parse_min_max, "1:1.5", "'1:1.5': '1.5' is not a whole number from 0 up"),
        (parse_min_max, "0:9223372036854775808", "'9223372036854775808' is not a whole number from 0 up"),
        (parse_min_max, "3:2", "'3:2': the minimum is greater than the maximum"),
        (parse_min_max, "1:\x1b", r"'1:\x1b': '\x1b' is not a whole number from 0 up"),
        (parse_memory_limits, "0:9223372036854775807", "is more memory than can be counted; it is in GiB"),
        (parse_gpu_limits, ["1:2"], "'1:2' is not of the form type:min:max"),
        (parse_gpu_limits, [":1:2"], "':1:2' is not of the form type:min:max"),
        (parse_gpu_limits, ["t4:1:2", "t4:1:3"], "the GPU type t4 is given twice"),
        (parse_node_group_flag, "1:2:", "'1:2:' is not of the form min:max:name"),
        (parse_node_group_flag, "1:2", "'1:2' is not of the form min:max:name"),
        (parse_node_group_flag, "7:2:x", "'7:2:x': the minimum is greater than the maximum"),
    ],
)
def test_a_wrong_limit_is_one_sentence(parse: Callable[[Any], object], source: object, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(source)
    assert str(caught.value).endswith(sentence)


def test_the_settings_texts_become_limits() -> None:
    settings = LimitSettings(cores_total="1:10", memory_total="2:20", gpu_total=("t4:0:3",))
    assert make_resource_limits(settings) == ResourceLimits(
        min_cores=1,
        max_cores=10,
        min_memory_bytes=2 * GIB,
        max_memory_bytes=20 * GIB,
        min_gpu={"t4": 0},
        max_gpu={"t4": 3},
    )


def test_default_limits_are_those_of_ca() -> None:
    limits = make_resource_limits(LimitSettings())
    assert (limits.max_cores, limits.max_memory_bytes, limits.max_gpu) == (320000, 6400000 * GIB, {})
