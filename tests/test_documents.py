"""What the documents say: their code runs as it stands, in fewer steps; their numbers and outputs are those that are
stored; the site can be built from them, its links lead somewhere, and it needs no other host."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import seponet

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_press"))

from blocks import Block, blocks_of, small_settings  # noqa: E402
from notebooks import notebook_of, text_of, tutorials, written  # noqa: E402
from outputs import read_outputs  # noqa: E402
from session import Session, commands_of  # noqa: E402

PAGES = [ROOT / "README.md", *sorted(path for path in DOCS.rglob("*.md") if "_press" not in path.parts)]
WITH_CODE = [page for page in PAGES if any(b.language in ("python", "sh") for b in blocks_of(page.read_text()))]
ROOMS = ("functions", "maps", "nn", "plots")
"""Packages below `seponet` whose names are public."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix().removeprefix("docs/")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of Burgers' equation that all pages share."""
    folder = tmp_path_factory.mktemp("documents")
    code = 'import seponet\nseponet.train("burgers", out="runs/burgers-quick", functions=2, figures=False, quiet=True)'
    Session(folder, {}).run(Block("python", code, 1, 0, 0))
    return folder / "runs"


@pytest.fixture
def workshop(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with what the pages name: a run, an input, a file with a problem."""
    shutil.copytree(trained, tmp_path / "runs")
    shutil.copy(ROOT / "examples" / "your_own_pde.py", tmp_path / "my_pde.py")
    np.save(tmp_path / "u.npy", 0.1 * np.sin(2 * np.pi * np.linspace(0, 1, 64, endpoint=False)))
    mpl.use("Agg")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("webbrowser.open", lambda *_: True)
    yield tmp_path
    sys.modules.pop("seponet_frozen", None)


def given_names(folder: Path) -> dict[str, Any]:
    x = np.linspace(0, 1, 64, endpoint=False)
    return {"np": np, "seponet": seponet, "u": np.load(folder / "u.npy"), "t": np.linspace(0, 1, 5), "x": x}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_code_runs(page: Path, workshop: Path):
    text = page.read_text()
    session = Session(workshop, small_settings(text))
    for block in blocks_of(text):
        session.run(block, str(page))
    if page.name == "inverse-problem.md":
        # The equation is linear, so that the posterior is known, and an operator of few steps has its linear part.
        assert session.namespace["off"].max() < 0.3
        assert 0.75 < session.namespace["spread"].min() <= session.namespace["spread"].max() < 1.3


def docstrings() -> Iterator[tuple[str, Block]]:
    """The blocks of Python in all docstrings of the package."""
    for path in sorted((ROOT / "seponet").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                for block in blocks_of(ast.get_docstring(node) or ""):
                    if block.language == "python":
                        yield f"{path.relative_to(ROOT)}:{getattr(node, 'name', 'module')}", block


def test_code_of_docstrings_runs(workshop: Path):
    """With the names that a reader of a docstring has: the package's, NumPy, an operator and an input."""
    import jax
    import optax
    from jax.sharding import AxisType

    from seponet.nn.coordinate_maps import Chain, PeriodicFeatures
    from seponet.operator.estimate import estimate
    from seponet.training.optimizers.registry import make_optimizer
    from seponet.training.optimizers.schedules import cosine

    found = list(docstrings())
    assert len(found) >= 10, "docstrings are read wrongly"
    operator = seponet.load(workshop / "runs" / "burgers-quick").calibrate(20)
    public = {name: getattr(room, name) for room in (seponet, seponet.functions, seponet.nn) for name in room.__all__}
    names = {
        **public,
        **given_names(workshop),
        "jax": jax,
        "optax": optax,
        "AxisType": AxisType,
        "key": jax.random.key(0),
        "Burgers": seponet.problems.Burgers,
        "MyPDE": seponet.problems.Burgers,
        "Chain": Chain,
        "PeriodicFeatures": PeriodicFeatures,
        "make_optimizer": make_optimizer,
        "cosine": cosine,
        "estimate": estimate,
        "operator": operator,
        "model": operator.model,
        "calibration": operator.calibration,
        "sensor_values": {"u": jax.numpy.asarray(np.load(workshop / "u.npy")[None])},
        "values": np.random.default_rng(0).standard_normal((3, 8)),
        "points": np.linspace(0, 1, 8),
    }
    for where, block in found:
        Session(workshop, {}, names).run(block, where)


def test_the_reference_has_every_public_name():
    text = "\n".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    shown = set(re.findall(r"^::: seponet\.(\S+)", text, re.MULTILINE))
    public = {name for name in seponet.__all__ if name not in (*ROOMS, "problems")}
    public |= {f"{room}.{name}" for room in ROOMS for name in getattr(seponet, room).__all__}
    # A package that is shown as a whole; a name that stands in two packages is shown in one of them.
    public -= {name for name in public if name.partition(".")[0] in shown}
    # `nn.build` is a function in a file of its name.
    shown |= {name.removesuffix(".build") for name in shown}
    missing = {name for name in public if not {name, name.partition(".")[2], f"functions.{name}"} & shown}
    assert not missing, f"the reference has no entry for {sorted(missing)}"
    for members in re.findall(r"members: \[(.*?)\]", text):
        assert all(hasattr(seponet.frozen, name) for name in members.split(", ")), members


def test_commands_exist():
    """Every command on every page, also those that are not run, has arguments that the parser knows; targets of make
    and extras are there."""
    from seponet.cli.parser import make_parser

    parser, makefile = make_parser(), (ROOT / "Makefile").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    commands = [
        words
        for page in PAGES
        for b in blocks_of(page.read_text())
        if b.language == "sh"
        for words in commands_of(b.code)
    ]
    assert len(commands) > 20
    for words in commands:
        if "seponet" in words:
            parser.parse_args(words[words.index("seponet") + 1 :])
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), words
        elif words[:2] == ["pip", "install"]:
            for extra in re.findall(r"seponet\[(\w+)\]", " ".join(words)):
                assert re.search(rf"^{extra} = ", project, re.MULTILINE), words


def test_documents_say_what_the_results_say():
    checked = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "render.py"), "--check"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_stored_outputs_are_of_the_code_on_the_page():
    for page in PAGES:
        read_outputs(name_of(page), blocks_of(page.read_text()))
    pages = {name_of(page).removesuffix(".md").replace("/", "-") for page in PAGES}
    stored = {path.stem for path in (DOCS / "outputs").glob("*.json")}
    assert stored <= pages, "outputs of pages that are gone"


@pytest.mark.parametrize("page", tutorials())
def test_notebooks_are_the_tutorials(page: str):
    """The cells of a notebook are the blocks of its page, which `test_code_runs` runs; its outputs are the stored ones,
    and small."""
    import nbformat

    path = written(page)
    assert path.read_text() == text_of(notebook_of(page)), "run `make notebooks`"
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert code == [b.code.rstrip() for b in blocks_of((DOCS / page).read_text()) if b.language == "python"]
    assert path.stat().st_size < 500_000


def test_the_readme_is_one_screen():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 85


class Assets(HTMLParser):
    """What a page loads, and where it leads within the site."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded, self.links, self.anchors = list[str](), list[str](), set[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag in ("script", "img", "iframe", "source", "video"):
            self.loaded += [values[name] for name in ("src", "srcset") if name in values]
        elif tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(values.get("href", ""))
        elif tag == "a":
            self.links.append(values.get("href", ""))


def test_the_site_is_built_and_needs_no_other_host(tmp_path: Path):
    """Strictly: a page that is missing in the navigation, a link or an anchor that leads nowhere is an error."""
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    assert built.returncode == 0, built.stderr
    site = tmp_path / "site"
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        if "gallery" in page.relative_to(site).parts:
            continue
        assets = Assets()
        assets.feed(page.read_text())
        foreign = [url for url in assets.loaded if re.match(r"(https?:)?//", url)]
        assert not foreign, f"{page.relative_to(site)} loads {foreign}"
        if page.name != "404.html":
            for url in [*assets.loaded, *assets.links]:
                if url and not re.match(r"[a-z]+:|#", url):
                    assert (page.parent / url.partition("#")[0].partition("?")[0]).exists(), f"{page.name}: {url}"
        assert "arithmatex" not in page.read_text(), f"{page.name} has a formula that is no MathML"
    assert "<math" in (site / "theory" / "formulas.html").read_text()
    # Words of our own lead from docstrings to the glossary, where they have an anchor.
    glossary = Assets()
    glossary.feed((site / "glossary.html").read_text())
    linked = re.findall(r'href="\.\./glossary\.html#([^"]+)"', (site / "reference" / "operators.html").read_text())
    assert "calibration" in linked
    assert set(linked) <= glossary.anchors
    # Every tutorial offers itself as a notebook, and every problem that has an explorer shows it.
    for tutorial in (site / "tutorials").glob("*.html"):
        assert f"notebooks/{tutorial.stem}.ipynb" in tutorial.read_text()
        assert (site / "notebooks" / f"{tutorial.stem}.ipynb").exists()
    for explorer in (DOCS / "gallery").glob("*.html"):
        if explorer.name != "index.html":
            assert f'src="../gallery/{explorer.name}"' in (site / "problems" / explorer.name).read_text()
            assert explorer.stat().st_size < 3_000_000
    assert "llms.txt" in {path.name for path in site.iterdir()}


def test_stored_outputs_are_small():
    for path in (DOCS / "outputs").glob("*.json"):
        stored = json.loads(path.read_text())
        for entry in stored["outputs"].values():
            assert len(entry["text"].splitlines()) <= 41
            for name in entry["figures"]:
                assert (DOCS / "outputs" / name).stat().st_size < 200_000
