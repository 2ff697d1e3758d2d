"""Who takes the whole tree of settings. Below these files a function takes the section that it needs."""

import ast
from collections.abc import Iterator
from pathlib import Path

import nodewright

CORE = Path(next(iter(nodewright.__path__)))
# Rooms that build the objects or own the loop, and the definition itself.
ROOMS = ("cli", "testkit", "engine", "model/settings")
FILES = {
    "clusterstate/fold.py": "the fold",
    "planner/make_plan.py": "the entry point of planning",
    "planner/context.py": "what the entry point hands to all steps of a plan",
    "planner/cost.py": "the entry point that bounds what the cluster costs",
    "planner/explain/node.py": "the entry point that explains a node of a plan",
    "validate/actions.py": "an entry point of the check",
    "validate/removals.py": "an entry point of the check",
    "adapters/shadow.py": "folds and plans again",
    "adapters/metrics/collectors.py": "asks for the bound of what the cluster costs",
    "adapters/metrics/metrics.py": "takes other settings while the process runs",
    "adapters/kube/caches.py": "four sections say which kinds are followed",
}


def takers(root: Path) -> Iterator[str]:
    """The files that import ``Settings``, as paths below the root."""
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "nodewright.model.settings":
                names = {name.name for name in node.names}
                if "Settings" in names:
                    yield path.relative_to(root).as_posix()


def test_below_the_entry_points_a_function_takes_the_section_that_it_needs() -> None:
    found = [name for name in takers(CORE) if not name.startswith(tuple(f"{room}/" for room in ROOMS))]
    assert sorted(found) == sorted(FILES), "pass a section of the settings, or the policy, instead of the whole tree"


def test_a_file_that_takes_the_whole_tree_is_found(tmp_path: Path) -> None:
    (tmp_path / "fold.py").write_text("from nodewright.model.settings import PodSettings, Settings\n")
    (tmp_path / "memory.py").write_text("from nodewright.model.settings import PodSettings\n")
    assert list(takers(tmp_path)) == ["fold.py"]
