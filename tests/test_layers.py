"""Rooms in the order of the data: a module imports what stands above it in this list, and nothing below."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import seponet

PACKAGE = Path(seponet.__file__).parent

LAYERS = (
    "_lazy",
    "_text",
    "_files",
    "_lock",
    "_machine",
    "_numbers",
    "_precision",
    "_program",
    "distributed",
    "frozen",
    "export",
    "derivatives",
    "domain",
    "mapped",
    "locations",
    "placed",
    "vtk",
    "bases",
    "maps",
    "functions",
    "drawing",
    "equations",
    "calculus",
    "discretise",
    "nn",
    "losses",
    "operator",
    "training",
    "reference",
    "problems",
    "evaluation",
    "plots",
    "runs",
    "cli",
)

MODULES = sorted(
    path.relative_to(PACKAGE).with_suffix("").parts
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).as_posix() not in ("__init__.py", "__main__.py")
)


def imported(parts: tuple[str, ...]) -> Iterator[str]:
    """The layers that a module imports, at its top, inside of functions and for type checkers alike."""
    path = PACKAGE.joinpath(*parts).with_suffix(".py")
    package = ("seponet", *parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) + 1 - node.level]) if node.level else []
            base += node.module.split(".") if node.module else []
            names = [[*base, alias.name] for alias in node.names]
        else:
            continue
        for name in names:
            if name[0] == "seponet" and name[1:] != ["__version__"]:
                yield name[1] if len(name) > 1 else "the whole package"


@pytest.mark.parametrize("parts", MODULES, ids=".".join)
def test_imports_point_to_what_stands_above(parts: tuple[str, ...]):
    assert parts[0] in LAYERS, f"{'.'.join(parts)} is in no layer; add its room to LAYERS, where it belongs"
    for layer in imported(parts):
        assert layer in LAYERS, f"{'.'.join(parts)} imports {layer}, which is in no layer"
        assert LAYERS.index(layer) <= LAYERS.index(parts[0]), f"{'.'.join(parts)} imports {layer}, which stands below"


CONTRIBUTING = PACKAGE.parent / "CONTRIBUTING.md"


def walks() -> dict[str, list[str]]:
    """The walks through the code in CONTRIBUTING.md: for each title its files, in order."""
    sections = re.split(r"^### ", CONTRIBUTING.read_text(), flags=re.M)[1:]
    return {text.partition("\n")[0]: re.findall(r"^\d+\. `([\w/]+\.py)`", text, flags=re.M) for text in sections}


@pytest.mark.parametrize(
    ("title", "most"),
    [
        ("One batch, from sampler to update", 17),
        ("One prediction, from folder to picture", 16),
        ("One `seponet train`", 16),
    ],
)
def test_walks_name_files_that_exist_once_and_stay_short(title: str, most: int):
    files = walks()[title]
    assert 0 < len(files) <= most
    assert len(set(files)) == len(files)
    assert [file for file in files if not (PACKAGE / file).is_file()] == []


def test_every_room_is_described():
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    table = CONTRIBUTING.read_text().partition("## The house")[2].partition("### ")[0]
    assert {room for room in rooms if f"`{room}/`" not in table} == set()


def test_slow_tests_exist():
    tests = Path(__file__).parent
    for line in (tests / "slow.txt").read_text().splitlines():
        if not line.startswith("#"):
            file, _, name = line.partition("::")
            assert f"def {name}(" in (tests / file).read_text(), f"slow.txt names {line}, which is not there"
