"""`seponet export` and `seponet explore`."""

import os
import sys
import webbrowser
from argparse import Namespace
from pathlib import Path

from ..operator.export import check_path
from ..operator.operator import Operator, load
from ..runs.config import RunConfig
from ..runs.gallery import write_gallery
from ..runs.train import run
from .evaluate import own_problem
from .files import grid_points
from .output import write_line


def export_command(arguments: Namespace) -> int:
    path = Path(arguments.output)
    check_path(path)
    if path.exists() and not arguments.overwrite:
        raise ValueError(f"{path} exists already; choose another file, or pass --overwrite")
    _export(_load(arguments.run, arguments), path, arguments)
    return 0


def explore_command(arguments: Namespace) -> int:
    if len(arguments.run) > 1:
        if not arguments.out:
            raise ValueError("several runs make a gallery, which needs a folder: --out DIR")
        page = write_gallery({name: _operator(name, arguments)[0] for name in arguments.run}, Path(arguments.out))
        write_line(f"{page}")
    else:
        # Before anything is trained.
        if arguments.out and Path(arguments.out).suffix != ".html":
            raise ValueError(f"--out must end in .html for one page; got {arguments.out}")
        operator, folder = _operator(arguments.run[0], arguments)
        page = Path(arguments.out) if arguments.out else folder / "explorer.html"
        check_path(page)
        _export(operator, page, arguments)
    if not arguments.no_open and _has_screen():
        webbrowser.open(page.absolute().as_uri())
    return 0


def _export(operator: Operator, path: Path, arguments: Namespace) -> None:
    points = {n: p for n, p in grid_points(operator.problem, arguments.grid).items() if n in arguments.grid}
    try:
        operator.export(path, **points)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(f"{path} can't be written ({reason}): make room, or choose another place") from None
    write_line(f"{path}: {path.stat().st_size / 1e6:.2g} MB")


def _operator(name: str, arguments: Namespace) -> tuple[Operator, Path]:
    """The operator of a run folder; or of a problem, which is trained first unless that has been done."""
    if Path(name).is_dir():
        return _load(name, arguments), Path(name)
    config = RunConfig.make(name, "quick", 0, {})
    folder = Path("runs") / f"{config.name}-quick"
    if (folder / "operator").is_dir():
        write_line(f"using the run in {folder}")
        return _load(folder, arguments), folder
    resume = (folder / "config.toml").exists()
    return run(config, out=folder, resume=resume, quiet=arguments.quiet).operator, folder


def _load(folder: str | Path, arguments: Namespace) -> Operator:
    return load(folder, problem=own_problem(arguments), trust=arguments.trust)


def _has_screen() -> bool:
    """Without one, a browser in the terminal might be started, which nobody asked for."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
