"""Options that several commands share."""

import argparse
from typing import Any

from .values import count_from, read_duration, read_grid, read_setting


def add_page_grid(command: argparse.ArgumentParser) -> None:
    purpose = "the number of points along each axis (default: 101, or 21 x 49 x 49 with three axes)"
    command.add_argument("--grid", type=read_grid, default={}, metavar="t=101,x=256", help=purpose)


def add_command(commands: Any, name: str, purpose: str, *examples: str) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name,
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=list_examples(*examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--debug", action="store_true", help="show a traceback when something fails")
    return command


def add_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("run", metavar="RUN", help="a run folder, or a folder that Operator.save wrote")


def add_code(command: argparse.ArgumentParser) -> None:
    """What may be run of the code that a folder names."""
    command.add_argument(
        "--problem", dest="own", metavar="FILE:CLASS", help="the problem of the run, if it is not one of the package"
    )
    add_trust(command)


def add_trust(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--trust",
        action="store_true",
        help="run the Python file that the run names; not needed for a file that you have trained with yourself",
    )


def add_files(command: argparse.ArgumentParser) -> None:
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


def add_distributed(command: argparse.ArgumentParser, alone: str | None = None) -> None:
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


def add_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="write JSON, for machines")


def add_kind(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--reference",
        choices=("converged", "paper", "own"),
        default="converged",
        help="converged: the problem's `reference` (the default), or the library's own discretisation if it has none; "
        "own: the latter in any case; paper: a coarse solver like those that the paper quotes its errors against",
    )


def add_functions(command: argparse.ArgumentParser, purpose: str, least: int = 1) -> None:
    command.add_argument(
        "--functions", type=count_from(least), default=100, metavar="N", help=f"{purpose} (default: 100)"
    )


def add_set(command: argparse.ArgumentParser, examples: str) -> None:
    purpose = f"change a setting, as often as needed: {examples}"
    command.add_argument("--set", action="append", type=read_setting, default=[], metavar="KEY=VALUE", help=purpose)


def list_examples(*lines: str) -> str:
    return "\n".join(["examples:", *(f"  {line}" for line in lines)])
