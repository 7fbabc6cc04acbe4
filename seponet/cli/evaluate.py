"""`seponet evaluate`, and the table that `seponet train` ends with."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from .._precision import in_precision_of
from .._text import percent, plain, show_bytes, show_duration
from ..equations.problem import Problem
from ..evaluation.break_even import break_even, describe_break_even
from ..evaluation.report import evaluation_report
from ..operator.operator import Operator, load
from ..problems.published import paper_figure
from ..runs.folder import RunFolder
from ..runs.problems import find_class
from ..training.progress import progress_bar
from .output import write_json, write_line, write_table


def evaluate_command(arguments: Namespace) -> int:
    folder = RunFolder(arguments.run)
    operator = load(folder.path, problem=own_problem(arguments), trust=arguments.trust)
    with in_precision_of(operator.model), progress_bar("solving the test functions", arguments.json) as progress:
        errors = evaluation_report(operator, arguments.functions, arguments.reference, progress)
    errors |= break_even({**folder.read_report(), **errors})
    if arguments.write:
        with folder.lock():
            folder.add_to_report(plain(errors))
    report = {**folder.read_report(), **errors}
    if arguments.json:
        write_json(report)
    else:
        show_report(operator, report)
    return 0


def own_problem(arguments: Namespace) -> type[Problem] | None:
    """The class that `--problem` names: code that is named on the command line is trusted."""
    return None if arguments.own is None else find_class(arguments.own)


def show_report(operator: Operator, report: Mapping[str, Any]) -> None:
    """Errors with the paper's beside them, and residuals."""
    name = type(operator.problem).__name__
    if "relative_l2_mean" in report:
        figure = paper_figure(operator.problem)
        theirs = {} if figure is None else vars(figure)
        columns = ["", "here"] + (["paper (A100, against its own reference)"] if figure else [])
        rows = [
            [label, _show(kind, report, key), *([_show(kind, theirs, key)] if figure else [])]
            for label, kind, key in ROWS
        ]
        write_table(f"{name}: errors over {report['functions']} unseen functions", columns, rows)
        error = report.get("reference_error")
        if report["reference"] == "paper":
            write_line("The reference is a coarse solver like the paper's; its own error is part of these figures.")
        elif report["reference"] == "own" and error is not None:
            write_line(f"reference: own discretisation, error {percent(error)}")
        elif error is not None:
            write_line(f"The reference is converged: its own error is about {100 * error:.2g}%.")
        paid = describe_break_even(report)
        if paid:
            write_line(f"Training has paid for itself after {paid}")
    elif operator.problem.inputs:
        write_line("The reference could not be computed, so there are residuals only.")
    else:
        write_line(f"{name} has no inputs, so there are residuals only.")
    show_residuals(report["residuals"])


def show_residuals(residuals: Mapping[str, Mapping[str, float]]) -> None:
    rows = [[name, f"{value['mean']:.3g}", f"{value['max']:.3g}"] for name, value in residuals.items()]
    write_table("Residuals (root mean square)", ["", "mean", "worst function"], rows)


ROWS = (
    ("relative L2 error", "percent", "relative_l2"),
    ("RMSE", "number", "rmse"),
    ("largest error", "number", "maximum"),
    ("training time", "time", "training_seconds"),
    ("peak memory", "bytes", "peak_memory_bytes"),
)


def _show(kind: str, report: Mapping[str, Any], key: str) -> str:
    if kind in ("time", "bytes"):
        value = report.get(key)
        if value is None:
            return "-"
        return show_duration(value) if kind == "time" else show_bytes(value)
    mean, std = report.get(f"{key}_mean"), report.get(f"{key}_std")
    factor, unit = (100, "%") if kind == "percent" else (1, "")
    if mean is None:
        return "-"
    return f"{factor * mean:.3g}{unit}" + (f" ± {factor * std:.2g}{unit}" if std is not None else "")
