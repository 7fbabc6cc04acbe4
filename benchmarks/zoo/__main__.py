"""Other people's PDEs: how accurate the references are, what is solved of each, and what is learned.

    seponet bench zoo --references              # all twenty: the references' own errors and times
    seponet bench zoo --solve                   # no network: discretisation, announced and true errors, seconds
    seponet bench zoo --train KdV --seeds 0 1   # the general recipe, untouched; --recipe standard takes longer

One row for each problem is printed; those of the whole zoo are stored in `results/zoo_references.json`,
`results/zoo_solve.json`, or for trainings `results/zoo_quick.json`, by the name of the recipe.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# This file is run as a folder: beside the folder are `results` and the package itself.
sys.path.insert(0, str(Path(__file__).parents[1]))
from results import machine, store

from seponet._text import did_you_mean
from zoo import PROBLEMS
from zoo._solve import measure_solve
from zoo._train import Row, measure_reference, measure_training

Measurement = Callable[[list[str], argparse.Namespace], Iterator[Row]]


def references(names: list[str], arguments: argparse.Namespace) -> Iterator[Row]:
    for name in names:
        yield measure_reference(name, arguments.functions)


def solve(names: list[str], arguments: argparse.Namespace) -> Iterator[Row]:
    for name in names:
        yield measure_solve(name, arguments.functions, arguments.tolerance)


def train(names: list[str], arguments: argparse.Namespace) -> Iterator[Row]:
    for name in names:
        for seed in arguments.seeds:
            yield measure_training(name, arguments.recipe, seed)


MEASUREMENTS: dict[str, tuple[Measurement, str]] = {
    "references": (references, "the references' own errors and times"),
    "solve": (solve, "solutions without a network: what is announced, and what is true"),
    "train": (train, "a training with the general recipe, and its errors"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="seponet bench zoo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("problems", nargs="*", help=f"some of {', '.join(PROBLEMS)}; all by default")
    chosen = parser.add_mutually_exclusive_group(required=True)
    for name, (_, purpose) in MEASUREMENTS.items():
        chosen.add_argument(f"--{name}", dest="measurement", action="store_const", const=name, help=purpose)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of --train")
    parser.add_argument("--recipe", default="quick", help="of --train")
    parser.add_argument("--functions", type=int, default=20, help="of --references and --solve")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="of --solve")
    arguments = parser.parse_intermixed_args()
    for name in arguments.problems:
        if name not in PROBLEMS:
            hint = did_you_mean(name, PROBLEMS)
            parser.error(f"there is no problem {name!r} in the zoo{hint}; choose some of {', '.join(PROBLEMS)}")
    training = arguments.measurement == "train"
    stored = f"zoo_{arguments.recipe if training else arguments.measurement}"
    rows: list[Row] = _rows_before(stored, arguments.problems) if training else []
    for row in MEASUREMENTS[arguments.measurement][0](arguments.problems or list(PROBLEMS), arguments):
        print(row, flush=True)
        rows.append(row)
        if training or not arguments.problems:
            store(stored, {"machine": machine(), "rows": rows})


def _rows_before(stored: str, problems: list[str]) -> list[Row]:
    """What is stored of other problems: trainings take long, and may be measured a few at a time."""
    path = Path(__file__).parents[1] / "results" / f"{stored}.json"
    rows = json.loads(path.read_text())["rows"] if problems and path.exists() else []
    return [row for row in rows if row["problem"] not in problems]


if __name__ == "__main__":
    main()
