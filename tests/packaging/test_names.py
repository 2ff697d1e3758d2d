"""A name says one thing: no class name of the core is defined twice, and none is a metaphor that was given up.

A docstring says what a thing is or does: it does not begin with a question word ("What …", "How many …").

A private class counts by its name without the underscore: ``_Plan`` beside ``Plan`` is the same name twice.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

# "Where listings are late, …" states a condition.
QUESTION_WORDS = re.compile(r"(What|How|Which|Who|Whom|Whose|Why|Whether|When)\b|Where\b(?! listings)")
SOURCE = Path(__file__).parents[2] / "core/src/nodewright"
# A reader could not guess what was behind these. Other words stand in their place.
GIVEN_UP = frozenset(
    {
        "Brain",
        "CalledOff",
        "Clerk",
        "Court",
        "Covering",
        "Desk",
        "Docket",
        "DryBrain",
        "End",
        "Fate",
        "Gallery",
        "Going",
        "Grant",
        "Ground",
        "GroupCase",
        "GroupSpec",
        "Holding",
        "Inquiries",
        "Lasting",
        "LiveEngine",
        "Load",
        "Market",
        "NodeGroupSpec",
        "Note",
        "Outlet",
        "Places",
        "Probes",
        "Question",
        "Removals",
        "Restraint",
        "Roll",
        "Room",
        "Roster",
        "Sample",
        "Setback",
        "Sight",
        "SizeGap",
        "Surroundings",
        "Tell",
        "Tenure",
        "Turns",
        "Whereabouts",
    }
)


def find_classes() -> dict[str, list[str]]:
    """Return the files that define each class, by its name without underscores."""
    found = defaultdict[str, list[str]](list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name.strip("_")].append(str(path.relative_to(SOURCE)))
    return found


def test_no_class_name_is_defined_twice() -> None:
    assert {name: files for name, files in find_classes().items() if len(files) > 1} == {}


def test_no_class_has_a_name_that_was_given_up() -> None:
    assert find_classes().keys() & GIVEN_UP == set()


def test_no_docstring_begins_with_a_question_word() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {text.splitlines()[0]}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and QUESTION_WORDS.match(text := ast.get_docstring(node) or "")
    ]
    assert found == []


def test_a_file_of_more_than_500_lines_says_why() -> None:
    long = {path: path.read_text() for path in SOURCE.rglob("*.py") if len(path.read_text().splitlines()) > 500}
    assert [
        str(path) for path, text in long.items() if "lines because" not in text and "is long because" not in text
    ] == []
