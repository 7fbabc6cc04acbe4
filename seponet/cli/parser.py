"""The commands and their options."""

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any

from .. import __version__
from .values import count_from, read_duration, read_grid, read_seed, read_setting, read_tolerance

PROBLEM = "a name (see `seponet list`), or path/to/file.py:ClassName"


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments of a command; a wrong call ends the process with code 2."""
    parser = make_parser()
    argv = sys.argv[1:] if argv is None else argv
    for word in argv:
        # Python's parser takes this for an option with an empty list.
        if re.fullmatch(r"--[^=]+=--", word):
            parser.error(f"{word.removesuffix('=--')} needs a value; got '--'")
    arguments = parser.parse_args(argv)
    if arguments.command == "info" and bool(arguments.run) == bool(arguments.distributed):
        parser.error("info: name a RUN, or give --distributed")
    if arguments.command == "train":
        mistake = _mistake_in_train(arguments)
        if mistake:
            parser.error(f"train: {mistake}")
    return arguments


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="seponet",
        description="Physics-informed operator learning with separable networks: train the solution operator of a PDE "
        "from the equation alone.",
        epilog=_examples(
            "seponet list",
            "seponet train burgers",
            "seponet evaluate runs/burgers-quick",
            "seponet predict runs/burgers-quick --input u.npy --output s.nc",
            "seponet explore runs/burgers-quick",
            "seponet train my_pde.py:KdV --set train.steps=1000",
            "seponet solve my_pde.py:KdV --input u.npy --tolerance 1e-4 --output s.nc",
            "seponet solve runs/burgers-quick --input u.npy --tolerance 1e-4 --output s.nc",
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"seponet {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _list(commands)
    _train(commands)
    _sweep(commands)
    _evaluate(commands)
    _predict(commands)
    _solve(commands)
    _export(commands)
    _explore(commands)
    _plot(commands)
    _reference(commands)
    _info(commands)
    _bench(commands)
    return parser


def _list(commands: Any) -> None:
    command = _add(commands, "list", "show the problems, their recipes and the paper's errors", "seponet list")
    _json(command)


def _train(commands: Any) -> None:
    command = _add(
        commands,
        "train",
        "train an operator, and evaluate it on functions that it has not seen",
        "seponet train burgers",
        "seponet train burgers --recipe paper --budget 5min --out runs/paper",
        "seponet train my_pde.py:KdV --tolerance 1e-3 --budget 5min",
        "seponet train my_pde.py:KdV --set train.steps=1000 --set model.rank='{t = 12, x = 32}'",
        "seponet train --resume --out runs/paper",
        "seponet train --config runs/paper/config.toml --seed 1 --out runs/paper-1",
        "srun -n 8 seponet train burgers --budget 10min",
    )
    command.add_argument("problem", nargs="?", metavar="PROBLEM", help=PROBLEM)
    command.add_argument("--recipe", default=None, help="quick (the default), standard, best, paper, or a .toml file")
    command.add_argument("--config", metavar="FILE", help="repeat the run that this config.toml describes")
    _set(command, "train.steps=300, model.rank=16, constants.nu=0.02")
    command.add_argument("--out", metavar="DIR", help="the run folder (default: runs/PROBLEM-RECIPE)")
    command.add_argument("--seed", type=read_seed, default=None, help="of weights, functions and points (default: 0)")
    existing = command.add_mutually_exclusive_group()
    existing.add_argument("--resume", action="store_true", help="go on with the run in --out")
    existing.add_argument("--overwrite", action="store_true", help="replace the run in --out")
    command.add_argument(
        "--budget",
        type=read_duration,
        metavar="TIME",
        help="train for this long: 90s, 5min, 2h; the learning rate ends with it, unless train.steps is set",
    )
    command.add_argument(
        "--tolerance",
        type=read_tolerance,
        metavar="ERROR",
        help="the relative error that is asked for, such as 1e-3; exit code 3 if it is not reached",
    )
    _trust(command)
    command.add_argument("--quiet", action="store_true", help="show nothing but errors and the result")
    command.add_argument("--no-figures", action="store_true", help="make no pictures")
    command.add_argument(
        "--calibration",
        type=count_from(0),
        default=50,
        metavar="N",
        help="fresh functions to solve at the end, to calibrate the error estimates; 0 skips it (default: 50)",
    )
    _functions(command, "test functions to evaluate on; 0 skips it", 0)
    _distributed(command)


def _sweep(commands: Any) -> None:
    command = _add(
        commands,
        "sweep",
        "train for every combination of some settings, side by side, and show one table",
        "seponet sweep burgers --over seed=0..7 --over constants.nu=0.01,0.02",
        "seponet sweep my_pde.py:KdV --over model.branch_width=64,128 --budget 5min --jobs 4",
        "seponet sweep burgers --over seed=0..99 --slurm sweep.sh && sbatch sweep.sh",
    )
    command.add_argument("problem", metavar="PROBLEM", help=PROBLEM)
    command.add_argument(
        "--over",
        action="append",
        default=[],
        metavar="KEY=VALUES",
        help="seed=0..7 or constants.nu=0.01,0.02; several make all combinations",
    )
    command.add_argument("--recipe", default="quick", help="as for train")
    command.add_argument("--budget", metavar="TIME", help="of each training: 90s, 5min, 2h")
    command.add_argument("--tolerance", metavar="ERROR", help="the relative error that is asked for")
    command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as for train")
    command.add_argument("--out", metavar="DIR", help="the folder of the runs (default: runs/sweep-PROBLEM-RECIPE)")
    command.add_argument(
        "--jobs", type=count_from(1), metavar="N", help="trainings at the same time (default: 1; of Slurm: all)"
    )
    command.add_argument("--only", type=count_from(0), metavar="I", help="one of the combinations, from 0")
    command.add_argument("--table", action="store_true", help="train nothing, show the table of what is there")
    command.add_argument("--slurm", metavar="FILE", help="write an array script for sbatch instead, and train nothing")
    command.add_argument("--json", action="store_true", help="write JSON, for machines")
    _trust(command)
    _functions(command, "test functions to evaluate on; 0 skips it", 0)


def _mistake_in_train(arguments: argparse.Namespace) -> str | None:
    if arguments.problem and arguments.config:
        return "give either PROBLEM or --config: a configuration names its problem"
    if (arguments.resume or arguments.overwrite) and not arguments.out:
        return "--resume and --overwrite need the folder of a run: --out DIR"
    if not (arguments.problem or arguments.config or arguments.resume):
        return "name a PROBLEM (see `seponet list`), or repeat a run with --config FILE"
    if arguments.recipe and not arguments.problem:
        return "the configuration has a recipe of its own: change it with --set instead of --recipe"
    return None


def _evaluate(commands: Any) -> None:
    command = _add(
        commands,
        "evaluate",
        "measure the errors of a run on functions that it has not seen",
        "seponet evaluate runs/burgers-quick",
        "seponet evaluate runs/burgers-quick --reference paper --json",
    )
    _run(command)
    _code(command)
    _functions(command, "test functions")
    _kind(command)
    command.add_argument("--write", action="store_true", help="put the result into the run's report.json")
    _json(command)


def _predict(commands: Any) -> None:
    command = _add(
        commands,
        "predict",
        "predict the solution for given input functions by a trained operator",
        "seponet predict runs/burgers-quick --input u.npy --output s.nc",
        "seponet predict runs/burgers-quick --input u.csv --output s.npy --grid t=101,x=256",
        "seponet predict runs/mine --input u=u.npy --input nu=0.02 --output s.nc",
        "seponet predict runs/mine --input u_and_nu.nc --output s.nc",
        "seponet predict runs/mine --input million.zarr --output predicted.zarr",
    )
    _run(command)
    _code(command)
    _files(command)
    command.add_argument("--no-error", action="store_true", help="do not estimate the errors")
    command.add_argument("--overwrite", action="store_true", help="replace an --output that is a Zarr store")


def _solve(commands: Any) -> None:
    command = _add(
        commands,
        "solve",
        "solve for given input functions to a tolerance: without a network, or by a run's operator and corrections of "
        "what is not accurate enough; exit code 3 if it is not reached for all",
        "seponet solve burgers --input u.npy --tolerance 1e-4 --output s.nc",
        "seponet solve runs/burgers-quick --input u.npy --tolerance 1e-4 --output s.nc",
        "seponet solve my_pde.py:KdV --input u.csv --output s.nc --grid t=101,x=256 --set constants.delta=0.02",
    )
    command.add_argument("problem", metavar="PROBLEM | RUN", help=f"{PROBLEM}; or the folder of a run")
    _code(command)
    _files(command)
    command.add_argument("--overwrite", action="store_true", help="replace --output if it exists")
    command.add_argument(
        "--tolerance", type=read_tolerance, default=1e-4, help="the relative L2 error of each function (default: 1e-4)"
    )
    command.add_argument("--quiet", action="store_true", help="show nothing but warnings and the result")
    _set(command, "constants.nu=0.02")
    _json(command)


def _export(commands: Any) -> None:
    command = _add(
        commands,
        "export",
        "write an operator on one grid to a file that needs no JAX: a page (.html), NumPy (.npz) or ONNX (.onnx)",
        "seponet export runs/burgers-quick burgers.html",
        "seponet export runs/burgers-quick burgers.npz --grid t=101,x=256",
    )
    _run(command)
    _code(command)
    command.add_argument("output", metavar="FILE", help="burgers.html, burgers.npz or burgers.onnx")
    _page_grid(command)
    command.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")


def _explore(commands: Any) -> None:
    command = _add(
        commands,
        "explore",
        "write a page on which to draw the input and watch the solution, and open it; several runs make a gallery",
        "seponet explore runs/burgers-quick",
        "seponet explore burgers",
        "seponet explore runs/burgers-quick runs/heat-quick --out gallery",
    )
    command.add_argument("run", nargs="+", metavar="RUN", help=f"a run folder, or a problem to train first: {PROBLEM}")
    command.add_argument("--out", metavar="FILE", help="the page (default: RUN/explorer.html), or the gallery's folder")
    _page_grid(command)
    _code(command)
    command.add_argument("--no-open", action="store_true", help="open no browser")
    command.add_argument("--quiet", action="store_true", help="show nothing but warnings and the result")


def _page_grid(command: argparse.ArgumentParser) -> None:
    purpose = "the number of points along each axis (default: 101, or 21 x 49 x 49 with three axes)"
    command.add_argument("--grid", type=read_grid, default={}, metavar="t=101,x=256", help=purpose)


def _plot(commands: Any) -> None:
    command = _add(commands, "plot", "make the pictures of a run again", "seponet plot runs/burgers-quick")
    _run(command)
    _code(command)


def _reference(commands: Any) -> None:
    command = _add(
        commands,
        "reference",
        "solve test functions classically and keep them in the cache",
        "seponet reference burgers",
        "seponet reference burgers --functions 20 --split validation --refresh",
    )
    command.add_argument("problem", metavar="PROBLEM", help=PROBLEM)
    _functions(command, "functions to solve for")
    command.add_argument("--split", choices=("test", "validation"), default="test", help="which functions")
    _kind(command)
    command.add_argument("--refresh", action="store_true", help="solve again what the cache has")
    _set(command, "constants.nu=0.02")


def _info(commands: Any) -> None:
    command = _add(
        commands,
        "info",
        "say what a run folder holds; or which processes and devices a training would have",
        "seponet info runs/burgers-quick",
        "srun -n 8 seponet info --distributed",
    )
    command.add_argument("run", nargs="?", metavar="RUN", help="a run folder, or a folder that Operator.save wrote")
    _json(command)
    _distributed(command, "auto")


def _bench(commands: Any) -> None:
    command = _add(
        commands,
        "bench",
        "run one of the benchmarks of a source checkout",
        "seponet bench",
        "seponet bench step --help",
    )
    command.add_argument("name", nargs="?", metavar="NAME", help="which one; without it they are listed")
    command.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="its own arguments (--json, ...)")


def _add(commands: Any, name: str, purpose: str, *examples: str) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name,
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=_examples(*examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--debug", action="store_true", help="show a traceback when something fails")
    return command


def _run(command: argparse.ArgumentParser) -> None:
    command.add_argument("run", metavar="RUN", help="a run folder, or a folder that Operator.save wrote")


def _code(command: argparse.ArgumentParser) -> None:
    """What may be run of the code that a folder names."""
    command.add_argument(
        "--problem", dest="own", metavar="FILE:CLASS", help="the problem of the run, if it is not one of the package"
    )
    _trust(command)


def _trust(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--trust",
        action="store_true",
        help="run the Python file that the run names; not needed for a file that you have trained with yourself",
    )


def _files(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help=".npy or .csv: one function, or one in each row, on a uniform grid (with both ends of an interval, "
        "without the upper end of a periodic axis); .nc: a variable for each input, on the file's own coordinates; "
        ".zarr (for predict): the same, chunk by chunk into an --output .zarr, and again only what is missing. A "
        "number or a vector may stand for the file of an input that has no axes. NAME is needed if there are several",
    )
    command.add_argument(
        "--output", required=True, metavar="FILE", help="s.nc (with coordinates), s.npy, or s.vts, s.vtu, s.pvd (VTK)"
    )
    command.add_argument(
        "--grid",
        type=read_grid,
        default={},
        metavar="t=101,x=256",
        help="the number of points along each axis, spread like those of an input (default: the problem's own grid)",
    )


def _distributed(command: argparse.ArgumentParser, alone: str | None = None) -> None:
    """How several processes do it together; `alone` is what `--distributed` without a word means, if it may be so."""
    word: dict[str, Any] = {"default": "auto"} if alone is None else {"nargs": "?", "const": alone}
    command.add_argument(
        "--distributed",
        choices=("off", "auto", "on"),
        **word,
        help="several processes: as srun, mpirun or the next options say (auto), as they must say (on), or never (off)",
    )
    command.add_argument("--processes", type=count_from(1), metavar="N", help="how many processes there are")
    command.add_argument("--process-id", type=count_from(0), metavar="I", help="which of them this is, from 0")
    command.add_argument("--coordinator", metavar="HOST:PORT", help="where process 0 waits for the others")
    command.add_argument(
        "--wait", type=read_duration, metavar="TIME", help="how long all wait for the last to start (default: 50s)"
    )


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="write JSON, for machines")


def _kind(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--reference",
        choices=("converged", "paper", "own"),
        default="converged",
        help="converged: the problem's `reference` (the default), or the library's own discretisation if it has none; "
        "own: the latter in any case; paper: a coarse solver like those that the paper quotes its errors against",
    )


def _functions(command: argparse.ArgumentParser, purpose: str, least: int = 1) -> None:
    command.add_argument(
        "--functions", type=count_from(least), default=100, metavar="N", help=f"{purpose} (default: 100)"
    )


def _set(command: argparse.ArgumentParser, examples: str) -> None:
    purpose = f"change a setting, as often as needed: {examples}"
    command.add_argument("--set", action="append", type=read_setting, default=[], metavar="KEY=VALUE", help=purpose)


def _examples(*lines: str) -> str:
    return "\n".join(["examples:", *(f"  {line}" for line in lines)])
