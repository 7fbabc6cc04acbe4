"""The commands and their options."""

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any

from .. import __version__
from .options import (
    add_code,
    add_command,
    add_distributed,
    add_files,
    add_functions,
    add_json,
    add_kind,
    add_page_grid,
    add_run,
    add_set,
    add_trust,
    list_examples,
)
from .values import count_from, read_duration, read_seed, read_tolerance

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
        epilog=list_examples(
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
    command = add_command(commands, "list", "show the problems, their recipes and the paper's errors", "seponet list")
    add_json(command)


def _train(commands: Any) -> None:
    command = add_command(
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
    add_set(command, "train.steps=300, model.rank=16, constants.nu=0.02")
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
    add_trust(command)
    command.add_argument("--quiet", action="store_true", help="show nothing but errors and the result")
    command.add_argument("--no-figures", action="store_true", help="make no pictures")
    command.add_argument(
        "--calibration",
        type=count_from(0),
        default=50,
        metavar="N",
        help="fresh functions to solve at the end, to calibrate the error estimates; 0 skips it (default: 50)",
    )
    add_functions(command, "test functions to evaluate on; 0 skips it", 0)
    add_distributed(command)


def _sweep(commands: Any) -> None:
    command = add_command(
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
    add_trust(command)
    add_functions(command, "test functions to evaluate on; 0 skips it", 0)


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
    command = add_command(
        commands,
        "evaluate",
        "measure the errors of a run on functions that it has not seen",
        "seponet evaluate runs/burgers-quick",
        "seponet evaluate runs/burgers-quick --reference paper --json",
    )
    add_run(command)
    add_code(command)
    add_functions(command, "test functions")
    add_kind(command)
    command.add_argument("--write", action="store_true", help="put the result into the run's report.json")
    add_json(command)


def _predict(commands: Any) -> None:
    command = add_command(
        commands,
        "predict",
        "predict the solution for given input functions by a trained operator",
        "seponet predict runs/burgers-quick --input u.npy --output s.nc",
        "seponet predict runs/burgers-quick --input u.csv --output s.npy --grid t=101,x=256",
        "seponet predict runs/mine --input u=u.npy --input nu=0.02 --output s.nc",
        "seponet predict runs/mine --input u_and_nu.nc --output s.nc",
        "seponet predict runs/mine --input million.zarr --output predicted.zarr",
    )
    add_run(command)
    add_code(command)
    add_files(command)
    command.add_argument("--no-error", action="store_true", help="do not estimate the errors")
    command.add_argument("--overwrite", action="store_true", help="replace an --output that is a Zarr store")


def _solve(commands: Any) -> None:
    command = add_command(
        commands,
        "solve",
        "solve for given input functions to a tolerance: without a network, or by a run's operator and corrections of "
        "what is not accurate enough; exit code 3 if it is not reached for all",
        "seponet solve burgers --input u.npy --tolerance 1e-4 --output s.nc",
        "seponet solve runs/burgers-quick --input u.npy --tolerance 1e-4 --output s.nc",
        "seponet solve my_pde.py:KdV --input u.csv --output s.nc --grid t=101,x=256 --set constants.delta=0.02",
    )
    command.add_argument("problem", metavar="PROBLEM | RUN", help=f"{PROBLEM}; or the folder of a run")
    add_code(command)
    add_files(command)
    command.add_argument("--overwrite", action="store_true", help="replace --output if it exists")
    command.add_argument(
        "--tolerance", type=read_tolerance, default=1e-4, help="the relative L2 error of each function (default: 1e-4)"
    )
    command.add_argument("--quiet", action="store_true", help="show nothing but warnings and the result")
    add_set(command, "constants.nu=0.02")
    add_json(command)


def _export(commands: Any) -> None:
    command = add_command(
        commands,
        "export",
        "write an operator on one grid to a file that needs no JAX: a page (.html), NumPy (.npz) or ONNX (.onnx)",
        "seponet export runs/burgers-quick burgers.html",
        "seponet export runs/burgers-quick burgers.npz --grid t=101,x=256",
    )
    add_run(command)
    add_code(command)
    command.add_argument("output", metavar="FILE", help="burgers.html, burgers.npz or burgers.onnx")
    add_page_grid(command)
    command.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")


def _explore(commands: Any) -> None:
    command = add_command(
        commands,
        "explore",
        "write a page on which to draw the input and watch the solution, and open it; several runs make a gallery",
        "seponet explore runs/burgers-quick",
        "seponet explore burgers",
        "seponet explore runs/burgers-quick runs/heat-quick --out gallery",
    )
    command.add_argument("run", nargs="+", metavar="RUN", help=f"a run folder, or a problem to train first: {PROBLEM}")
    command.add_argument("--out", metavar="FILE", help="the page (default: RUN/explorer.html), or the gallery's folder")
    add_page_grid(command)
    add_code(command)
    command.add_argument("--no-open", action="store_true", help="open no browser")
    command.add_argument("--quiet", action="store_true", help="show nothing but warnings and the result")


def _plot(commands: Any) -> None:
    command = add_command(commands, "plot", "make the pictures of a run again", "seponet plot runs/burgers-quick")
    add_run(command)
    add_code(command)


def _reference(commands: Any) -> None:
    command = add_command(
        commands,
        "reference",
        "solve test functions classically and keep them in the cache",
        "seponet reference burgers",
        "seponet reference burgers --functions 20 --split validation --refresh",
    )
    command.add_argument("problem", metavar="PROBLEM", help=PROBLEM)
    add_functions(command, "functions to solve for")
    command.add_argument("--split", choices=("test", "validation"), default="test", help="which functions")
    add_kind(command)
    command.add_argument("--refresh", action="store_true", help="solve again what the cache has")
    add_set(command, "constants.nu=0.02")


def _info(commands: Any) -> None:
    command = add_command(
        commands,
        "info",
        "say what a run folder holds; or which processes and devices a training would have",
        "seponet info runs/burgers-quick",
        "srun -n 8 seponet info --distributed",
    )
    command.add_argument("run", nargs="?", metavar="RUN", help="a run folder, or a folder that Operator.save wrote")
    add_json(command)
    add_distributed(command, "auto")


def _bench(commands: Any) -> None:
    command = add_command(
        commands,
        "bench",
        "run one of the benchmarks of a source checkout",
        "seponet bench",
        "seponet bench step --help",
    )
    command.add_argument("name", nargs="?", metavar="NAME", help="which one; without it they are listed")
    command.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="its own arguments (--json, ...)")
