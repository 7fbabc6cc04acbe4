"""The public surface: what a user imports, what the documents name, and what importing it costs."""

import ast
import inspect
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import seponet

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_press" not in path.parts)]
DOCUMENTS = [*(path for path in PAGES if "```python\n" in path.read_text()), *sorted((ROOT / "examples").glob("*.py"))]
ROOMS = ("equations", "frozen", "functions", "nn", "plots", "problems")
PROTOCOLS = {"Model"}
"""What is only implemented, by the classes of `seponet.nn`, and never imported by a user."""


def code_of(path: Path) -> str:
    """A Python file, or the blocks of Python in a document."""
    text = path.read_text()
    return text if path.suffix == ".py" else "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


def names_of(path: Path) -> set[str]:
    """What the code of a document takes from the package: `from seponet import x`, and `seponet.x`."""
    names = set[str]()
    for node in ast.walk(ast.parse(code_of(path))):
        if isinstance(node, ast.ImportFrom) and node.module == "seponet":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("seponet."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "seponet":
            names.add(node.attr)
    return names


def run(code: str) -> str:
    """What a new process writes that runs this code, without the settings of these tests."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_documents_import_is_public(path: Path):
    assert names_of(path) <= set(seponet.__all__)


def test_documents_are_read():
    assert {"Domain", "Problem", "solve", "train"} <= set.union(*map(names_of, DOCUMENTS))


def test_classes_that_documents_name_are_public():
    """Calls like `Robin(...)` in code within the prose, without an import beside them."""
    known = {*seponet.__all__, *seponet.functions.__all__, *seponet.nn.__all__, *dir(seponet.problems)}
    prose = "\n".join(re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL) for path in PAGES)
    called = {name for code in re.findall(r"`([^`]+)`", prose) for name in re.findall(r"\b([A-Z][A-Za-z]+)\(", code)}
    assert {"Residual", "Sampled", "Robin"} <= called
    assert called - {"FisherKPP"} <= known


@pytest.mark.parametrize("name", seponet.__all__)
def test_every_public_name_is_there(name: str):
    thing = getattr(seponet, name)
    assert isinstance(thing, ModuleType) or thing.__name__ == name
    assert name in dir(seponet)


def test_a_star_import_brings_exactly_the_public_names():
    namespace: dict[str, Any] = {}
    exec("from seponet import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(seponet.__all__)
    assert sorted(seponet.__all__) == seponet.__all__


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'seponet' has no attribute 'Solver'"):
        _ = seponet.Solver  # pyright: ignore[reportAttributeAccessIssue]


def classes_in(annotation: Any) -> Iterator[type]:
    """The package's own classes in an annotation, however deep."""
    if inspect.isclass(annotation) and annotation.__module__.startswith("seponet."):
        yield annotation
    for part in annotation if isinstance(annotation, list | tuple) else typing.get_args(annotation):
        yield from classes_in(part)


def annotations_of(thing: Any) -> Iterator[Any]:
    """Of a function's arguments and result, or of a class's public fields, methods and properties."""
    if not inspect.isclass(thing):
        yield from inspect.get_annotations(thing).values()
        return
    yield from (value for name, value in inspect.get_annotations(thing).items() if not name.startswith("_"))
    for name, member in vars(thing).items():
        if not name.startswith("_") or name == "__init__":
            function = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", None) or member)
            if callable(function):
                yield from inspect.get_annotations(function).values()


@pytest.mark.parametrize("name", [name for name in seponet.__all__ if name not in ROOMS])
def test_classes_in_public_annotations_are_public(name: str):
    """In the package itself, or listed by the `__init__` of a room."""
    rooms = [__import__(f"seponet.{room}", fromlist=["__all__"]) for room in ROOMS]
    listed = {*seponet.__all__, *(name for room in rooms for name in getattr(room, "__all__", vars(room)))}
    annotated = {made.__name__ for value in annotations_of(getattr(seponet, name)) for made in classes_in(value)}
    assert annotated - PROTOCOLS <= listed


def test_importing_the_package_touches_no_jax():
    assert run("import sys, seponet; dir(seponet); print({'jax', 'numpy', 'xarray'} & set(sys.modules))") == "set()"


def test_training_and_loading_import_without_what_only_posix_has():
    """As on Windows: the modules are missing, and so is what `os` has of them."""
    code = """
import os, sys
import psutil  # whose half for Linux needs some of what goes
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("fork", "sched_getaffinity", "setsid", "killpg"):
    if hasattr(os, name):
        delattr(os, name)
import seponet
from seponet.cli import main
print(seponet.train.__name__, seponet.load.__name__, main(["list"]) == 0)
"""
    assert run(code).splitlines()[-1] == "train load True"


WITHOUT_EXTRAS = """
import sys
for name in ("PIL", "diffrax", "exponax", "matplotlib"):
    sys.modules[name] = None
"""


def test_everything_public_is_there_without_the_extras():
    code = """
import seponet
from seponet import *
print(train.__name__, load.__name__, sorted(set(seponet.__all__) - set(globals())))
"""
    assert run(WITHOUT_EXTRAS + code) == "train load []"


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("seponet.plots.plot_history", "matplotlib", "plots"),
        ("seponet.reference.solve_burgers", "exponax", "references"),
        ("seponet.reference.solve_nonlinear_diffusion", "diffrax", "references"),
    ],
)
def test_what_an_extra_brings_is_told(name: str, package: str, extra: str):
    code = f"""
import seponet.plots, seponet.reference
try:
    {name}
except ImportError as error:
    print(error)
"""
    wanted = f"{name} needs {package}, which is not installed: pip install 'seponet[{extra}]'"
    assert run(WITHOUT_EXTRAS + code) == wanted
