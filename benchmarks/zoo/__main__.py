"""Other people's PDEs: how accurate the references are, what is solved of each, and what is learned.

    seponet bench zoo --references              # all twenty: the references' own errors and times
    seponet bench zoo --solve                   # no network: discretisation, announced and true errors, seconds
    seponet bench zoo --train KdV --seeds 0 1   # the general recipe, untouched; --recipe standard takes longer

One row for each problem is printed; those of the whole zoo are stored in `results/zoo_references.json` and
`results/zoo_solve.json`. Each training has a process of its own, a file `results/zoo/KdV-quick-0.json` and a run folder
`runs/zoo/quick/KdV`; one that has such a file is not run again, unless it failed or with `--again`.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# This file is run as a folder: beside the folder are `results` and the package itself.
sys.path.insert(0, str(Path(__file__).parents[1]))
from results import machine, store

from seponet._text import did_you_mean
from seponet.runs.recipes import load_recipe
from zoo import PROBLEMS
from zoo._solve import measure_solve
from zoo._train import Row, measure_reference, trainings

Measurement = Callable[[list[str], argparse.Namespace], Iterator[Row]]


def references(names: list[str], arguments: argparse.Namespace) -> Iterator[Row]:
    for name in names:
        yield measure_reference(name, arguments.functions)


def solve(names: list[str], arguments: argparse.Namespace) -> Iterator[Row]:
    for name in names:
        yield measure_solve(name, arguments.functions, arguments.tolerance)


MEASUREMENTS: dict[str, tuple[Measurement, str]] = {
    "references": (references, "the references' own errors and times"),
    "solve": (solve, "solutions without a network: what is announced, and what is true"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="seponet bench zoo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("problems", nargs="*", help=f"some of {', '.join(PROBLEMS)}; all by default")
    chosen = parser.add_mutually_exclusive_group(required=True)
    for name, (_, purpose) in MEASUREMENTS.items():
        chosen.add_argument(f"--{name}", dest="measurement", action="store_const", const=name, help=purpose)
    chosen.add_argument("--train", action="store_true", help="trainings with a general recipe, and their errors")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of --train")
    parser.add_argument("--recipe", default="quick", help="of --train")
    parser.add_argument("--again", action="store_true", help="of --train: run finished trainings again")
    parser.add_argument("--shared", action="store_true", help="of --train: count processor seconds, beside other work")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    parser.add_argument("--to", help=argparse.SUPPRESS)
    parser.add_argument("--functions", type=int, default=20, help="of --references and --solve")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="of --solve")
    arguments = parser.parse_intermixed_args()
    for name in arguments.problems:
        if name not in PROBLEMS:
            hint = did_you_mean(name, PROBLEMS)
            parser.error(f"there is no problem {name!r} in the zoo{hint}; choose some of {', '.join(PROBLEMS)}")
    if arguments.train:
        train(arguments)
        return
    rows: list[Row] = []
    for row in MEASUREMENTS[arguments.measurement][0](arguments.problems or list(PROBLEMS), arguments):
        print(row, flush=True)
        rows.append(row)
        if not arguments.problems:
            store(f"zoo_{arguments.measurement}", {"machine": machine(), "rows": rows})


def train(arguments: argparse.Namespace) -> None:
    """The trainings that are asked for, or inside of the process of one, that one."""
    try:
        load_recipe(arguments.recipe)
    except ValueError as error:
        raise SystemExit(f"seponet bench zoo: {error}") from None
    study = trainings(arguments.recipe, arguments.seeds, arguments.shared)
    if arguments.cell:
        study.main(["--cell", arguments.cell, "--to", arguments.to])
        return
    names = arguments.problems or list(PROBLEMS)
    study.run([cell for cell in study.choose((), again=arguments.again, retry=True) if cell.problem in names])


if __name__ == "__main__":
    main()
