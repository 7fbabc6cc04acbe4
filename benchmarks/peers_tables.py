"""The table of the peers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import published
import tables
from study import Cell, Finished, Outcome

NAMES = {
    "seponet_quick": "seponet, `quick` recipe",
    "seponet_paper": "seponet, the paper's recipe",
    "reference": "separable-operator-networks 0.0.2",
    "deepxde_zcs": "DeepXDE 1.15.0, zero-coordinate shift",
    "deepxde": "DeepXDE 1.15.0, default",
}


def write(found: Finished, cells: Sequence[Cell]) -> None:
    """Write `tables/peers.md`, with the cells that have not been run."""
    parts = [
        "# Peers",
        f"100 functions a step, networks of the paper's sizes, float32, {tables.cores(found)}. All learn from "
        "functions of one distribution (ours from new ones, as its recipes have it, peers from a pool of 2000; "
        "DeepXDE's points stay the same) and are tested on the same 100 unseen ones, against converged references. "
        "Memory is the peak of the process, with its libraries. *To the paper's error*: seconds until the mean "
        "relative error is that of the paper's SepONet on as many points (128^2 for `quick`), after its full training "
        "on an A100; where it was not reached, the error after the budget. The `quick` recipe's seconds include "
        "compilation and validation, all others' neither.",
    ]
    for problem in dict.fromkeys(asdict(cell)["problem"] for cell in cells):
        problem_cells = [cell for cell in cells if asdict(cell)["problem"] == problem]
        errors = [published.error(problem, "SepONet", points, 100) for points in (32, 128)]
        shown = " and ".join(tables.theirs(error, tables.percent) for error in errors)
        parts.append(f"## {tables.title(problem)} (paper's error on 32^2 and 128^2 points {shown})")
        rows = [_row(asdict(cell), found.get(cell.id)) for cell in problem_cells]
        columns = ["", "points", "step", "peak memory", "to the paper's error", "lowest error reached"]
        parts.append(tables.markdown(columns, rows))
    tables.write("peers", parts)


def _row(cell: Mapping[str, Any], outcome: Outcome | None) -> list[str]:
    points = cell["points"]
    head = [NAMES[cell["who"]], "its own" if points == "own" else f"{points}^2"]
    if outcome is None:
        return [*head, "not run yet", "", "", ""]
    if not outcome.measured:
        return [*head, f"failed: {outcome.result['reason']}", "", "", ""]
    training: Mapping[str, Any] = outcome.result["training"]
    costs = [tables.seconds(outcome.result["seconds"]), tables.size(outcome.result["process_bytes"])]
    reached = training["reached_seconds"]
    spent = f"{training['trained_seconds']:.0f} s"
    # At the paper's rate errors jump with every new batch, for all packages alike.
    lowest = min([training["error"], *(error for _, error in training["history"])])
    return [
        *head,
        *costs,
        f"not in {spent}" if reached is None else f"{reached:.2g} s",
        f"{tables.percent(lowest)} (last {tables.percent(training['error'])}) in {spent}, {training['steps']} steps",
    ]
