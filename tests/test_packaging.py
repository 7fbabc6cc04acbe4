"""The wheel and the sdist: they are built, hold what they should, and the wheel works without the checkout."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import seponet

ROOT = Path(__file__).parent.parent
PACKAGE = [path for path in (ROOT / "seponet").rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def run(*words: str, cwd: Path, path: Path | None = None) -> str:
    environment = os.environ | ({"PYTHONPATH": str(path)} if path else {})
    done = subprocess.run(words, capture_output=True, text=True, cwd=cwd, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The two files, by their suffix."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), cwd=ROOT)
    return {path.suffix: path for path in folder.iterdir()}


def test_names_have_the_version(built: dict[str, Path]):
    assert built[".whl"].name.startswith(f"seponet-{seponet.__version__}-py3")
    assert built[".gz"].name == f"seponet-{seponet.__version__}.tar.gz"
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert f"## [{seponet.__version__}]" in changes, "the changelog has no section for this version"
    assert f"version: {seponet.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_wheel_is_the_package_and_nothing_else(built: dict[str, Path]):
    """Also what is no Python: recipes, the explorer's page, the mark of types."""
    with zipfile.ZipFile(built[".whl"]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == {path.relative_to(ROOT).as_posix() for path in PACKAGE}


def test_the_sdist_has_tests_and_documents(built: dict[str, Path]):
    with tarfile.open(built[".gz"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"README.md", "CITATION.cff", "Makefile", "mkdocs.yml", "docs/index.md", "tests/conftest.py"} <= names
    assert {path.relative_to(ROOT).as_posix() for path in PACKAGE} <= names
    assert not [name for name in names if name.startswith(("site/", "runs/", ".venv"))]


def test_the_installed_wheel_trains_without_the_checkout(built: dict[str, Path], tmp_path: Path):
    place = tmp_path / "installed"
    install = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--target", str(place)]
    run(sys.executable, "-m", "pip", *install, str(built[".whl"]), cwd=tmp_path)
    where = run(sys.executable, "-c", "import seponet; print(seponet.__file__)", cwd=tmp_path, path=place)
    assert Path(where.strip()).is_relative_to(place)
    few = ["train.steps=2", "train.functions=4", "model.rank={t = 5, x = 5}", "train.sampling.points=8"]
    settings = [word for setting in few for word in ("--set", setting)]
    skipped = ["--functions=0", "--calibration=0", "--no-figures", "--quiet"]
    code = f"import sys; from seponet.cli import main; code = main({['train', 'burgers', *settings, *skipped]!r}); "
    run(sys.executable, "-c", code + "sys.exit(code if code != 3 else 0)", cwd=tmp_path, path=place)
    assert (tmp_path / "runs" / "burgers-quick" / "operator" / "operator.json").exists()
