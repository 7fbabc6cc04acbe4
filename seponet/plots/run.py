"""All pictures of a training run."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._precision import in_precision_of
from ..drawing.style import save_figure
from ..evaluation.errors import Errors, measure, predict_fields
from ..evaluation.testset import TestSet
from ..locations import Grid
from ..nn.model import OperatorNetwork
from ..problems.separated import analytic_basis
from .animation import animate
from .basis import plot_basis, tables_of
from .case import Case, Which, find_function
from .comparison import draw_comparison
from .histogram import plot_errors
from .history import plot_history
from .panels import arrange
from .sample import plot_sample

logger = logging.getLogger(__name__)


def plot_all(
    model: OperatorNetwork,
    testset: TestSet | None,
    errors: Errors | None,
    history: Sequence[Mapping[str, Any]],
    folder: str | Path,
    *,
    paper_error: float | None = None,
) -> list[Path]:
    """Every picture that there is something for; the files that were written.

    **Arguments:**

    - `model`: a trained model.
    - `testset`: unseen functions with references; None if the problem has no reference.
    - `errors`: of the model on the test set; None measures them.
    - `history`: the entries of `metrics.jsonl`.
    - `folder`: where the pictures go.
    - `paper_error`: the paper's mean relative error, as a fraction.
    """
    folder = Path(folder)
    files: list[Path] = []
    if history:
        files.append(plot_history(history, folder / "history.png", paper_error=paper_error))
    files += _plot_basis(model, folder)
    if testset is None:
        return files
    errors = measure(model, testset) if errors is None else errors
    files.append(plot_errors(errors, paper_error, folder / "errors.png"))
    cases = [predict_case(model, testset, errors, which) for which in ("median", "worst")]
    quantities = cases[0].quantities()
    for quantity in quantities:
        tail = f"-{quantity}" if len(quantities) > 1 else ""
        files.append(plot_sample(testset, folder / f"sample{tail}.png", quantity=quantity))
        if arrange(cases[0].problem, cases[0].points).along is None:
            files.append(save_figure(draw_comparison(cases, quantity), folder / f"comparison{tail}.png"))
            continue
        for case in cases:
            files.append(save_figure(draw_comparison([case], quantity), folder / f"comparison-{case.rank}{tail}.png"))
        files.append(animate(cases[0], folder / f"animation{tail}.gif", quantity=quantity))
    return files


def predict_case(model: OperatorNetwork, testset: TestSet, errors: Errors, which: Which) -> Case:
    """One function of a test set with the model's prediction."""
    number, rank = find_function(errors, which)
    inputs = {name: functions[number] for name, functions in testset.inputs.items()}
    fields = model.problem.fields
    grid = Grid.of(model.problem.domain, {name: jnp.asarray(p) for name, p in testset.points.items()})
    with in_precision_of(model):
        predicted = predict_fields(model, inputs, grid)
    return Case(
        testset.problem,
        inputs,
        testset.points,
        {field: testset.solution(field)[number] for field in fields},
        {field: np.asarray(values[0]) for field, values in zip(fields, predicted, strict=True)},
        number,
        float(errors.relative_l2[number]),
        rank,
    )


def _plot_basis(model: OperatorNetwork, folder: Path) -> list[Path]:
    analytic = analytic_basis(model.problem, model.exact)
    try:
        table = next(iter(tables_of(model).values()))
        owners = [str(name) for name in table[table.dims[0]].to_numpy()]  # fields, or potentials
        return [
            plot_basis(model, folder / f"basis{f'-{owner}' if len(owners) > 1 else ''}.png", analytic, field=owner)
            for owner in owners
        ]
    except ValueError as error:
        logger.info("no picture of basis functions: %s", error)
        return []
