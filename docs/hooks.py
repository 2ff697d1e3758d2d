"""The text of plugin-hooks.md: every hook with its signature, its rules and an example, from the sources themselves."""

import inspect
import textwrap
from collections.abc import Iterator

from nodewright import spec
from nodewright_fake import FakeProvider

HEAD = """# Every hook of the provider contract

This page is generated from the sources: `make generate` writes it, and a test fails if it is stale. Signatures and rules come
from `nodewright.spec`. The examples come from the plugin `nodewright-fake`, which passes the contract suite.

In the examples:

- `self.cloud` stands for your cloud's SDK.
- `self._view(group_id)` returns what the last `refresh` read of the group; it raises `NodeGroupNotFound`.
- `self._look_again(group_id)` reads the group again after the plugin's own write.
- `self._calls.counted(…)` counts calls.
- `self.cloud.faults…` simulates errors of the cloud. Your plugin does not need it.

The [plugin guide](plugin-guide.md) shows how the hooks make a plugin.
"""


def page() -> str:
    return "\n".join([HEAD, *_pages()])


def _pages() -> Iterator[str]:
    yield from _page("Required", spec.RequiredHooks)
    for capability, protocol in spec.CAPABILITY_HOOKS.items():
        yield from _page(f"`{capability.name}`", protocol)


def _page(title: str, protocol: type) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"{inspect.cleandoc(protocol.__doc__ or '').partition(': ')[2] or 'Every provider implements all of these.'}\n"
    for name, hook in vars(protocol).items():
        if inspect.isfunction(hook) and not name.startswith("_"):
            example = textwrap.dedent(inspect.getsource(vars(FakeProvider)[name]))
            yield f"### {name}\n\n```python\ndef {name}{inspect.signature(hook)}\n```\n"
            yield f"{inspect.cleandoc(hook.__doc__ or '')}\n\n```python\n{example}```\n"
