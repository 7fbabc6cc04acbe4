"""The pictures of a run folder."""

from pathlib import Path

import numpy as np

from .._precision import in_precision_of
from ..evaluation.errors import Errors
from ..evaluation.testset import find_testset
from ..operator.operator import Operator
from ..problems.published import paper_figure
from ..training.log import METRICS, read_history
from .folder import RunFolder


def plot_run(folder: RunFolder, operator: Operator, *, functions: int = 100) -> list[Path]:
    """Make all pictures of a run anew, into its `figures`; the files that were written.

    **Arguments:**

    - `folder`: a run that was trained to its end, or until a budget was spent.
    - `operator`: the operator of this run.
    - `functions`: how many test functions are measured, if the run's report has no errors yet.
    """
    from ..plots import plot_all  # Matplotlib is slow to load, and not needed for training alone.

    with in_precision_of(operator.model):
        report = folder.read_report()
        measured = report.get("per_function")
        errors = None if measured is None else Errors(**{name: np.asarray(v) for name, v in measured.items()})
        count = functions if errors is None else errors.relative_l2.shape[0]
        testset = find_testset(operator.problem, "test", count, kind=report.get("reference", "converged"))
        paper = paper_figure(operator.problem)
        return plot_all(
            operator.model,
            testset,
            errors,
            read_history(folder.path / METRICS),
            folder.path / "figures",
            paper_error=None if paper is None else paper.relative_l2_mean,
        )
