"""`seponet bench`: the benchmarks belong to the repository and are not part of an installation."""

import ast
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

from .._text import did_you_mean


def bench_command(arguments: Namespace) -> int:
    checkout = _checkout(Path.cwd(), Path(__file__).parents[2])
    scripts = {} if checkout is None else _benchmarks(checkout / "benchmarks")
    if not scripts:
        raise ValueError("there are no benchmarks here: they are not installed; run it in a checkout of the repository")
    if arguments.name is None:
        width = max(map(len, scripts))
        sys.stdout.write("".join(f"seponet bench {n:{width}}  {_purpose(scripts[n])}\n" for n in sorted(scripts)))
        return 0
    if arguments.name not in scripts:
        hint = did_you_mean(arguments.name, scripts)
        raise ValueError(f"there is no benchmark {arguments.name!r}{hint}; choose one of {', '.join(scripts)}")
    return _run([sys.executable, str(scripts[arguments.name]), *arguments.rest])


def _run(command: list[str]) -> int:
    """The exit code of a script, 0 or 1. It is asked to end whenever this process is."""
    script = subprocess.Popen(command)
    before = signal.signal(signal.SIGTERM, lambda *_: script.terminate())
    try:
        return int(script.wait() != 0)
    except KeyboardInterrupt:  # the terminal has told the script too
        return int(script.wait() != 0)
    finally:
        signal.signal(signal.SIGTERM, before)


def _checkout(here: Path, installed: Path) -> Path | None:
    """The checkout of this project that a folder lies in, else the one that is installed in place.

    The name in `pyproject.toml` is asked for, so that another project's folder of benchmarks is left alone.
    """
    for folder in (here, *here.parents, installed):
        project = folder / "pyproject.toml"
        if project.is_file() and 'name = "seponet"' in project.read_text(errors="replace").splitlines():
            return folder
    return None


def _benchmarks(folder: Path) -> dict[str, Path]:
    """Scripts, and folders with a `__main__.py`, by name."""
    scripts = {path.stem: path for path in sorted(folder.glob("*.py")) if _is_benchmark(path)}
    return scripts | {path.parent.name: path.parent for path in sorted(folder.glob("*/__main__.py"))}


def _is_benchmark(path: Path) -> bool:
    """A script, rather than a module that scripts share."""
    return not path.stem.startswith("_") and "\nif __name__ == " in "\n" + path.read_text()


def _purpose(path: Path) -> str:
    """The first line of a script's docstring."""
    path = path / "__main__.py" if path.is_dir() else path
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
