"""What is known about an operator: its size, its error, when it was trained; for notebooks and exported files."""

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._files import read_record
from .._text import percent
from ..equations.describe import describe_problem, html_table
from ..nn.fixed import parameter_count

if TYPE_CHECKING:
    from .operator import Operator


def facts_of(operator: "Operator") -> dict[str, Any]:
    """Numbers about an operator, as far as they are known: parameters, date, mean error on test functions."""
    model = operator.model
    facts: dict[str, Any] = {
        "parameters": parameter_count(model),
        "coefficients": model.size,
    }
    if operator.calibration is not None:
        facts["test_error"] = {"mean": operator.calibration.error, "functions": operator.calibration.functions}
    if operator.folder is not None:
        facts |= _stored(operator.folder)
    return facts


def _stored(folder: Path) -> dict[str, Any]:
    """What the folder of a run says beside the operator."""
    stored: dict[str, Any] = {}
    home = folder.parent if folder.name == "operator" else folder
    saved = next((f for f in (folder / "operator.json", folder / "operator" / "operator.json") if f.exists()), None)
    if saved is not None:
        moment = datetime.datetime.fromtimestamp(saved.stat().st_mtime, datetime.UTC)
        stored["trained"] = moment.date().isoformat()
    try:
        report = read_record(home / "report.json")
        stored["test_error"] = {"mean": float(report["relative_l2_mean"]), "functions": int(report["functions"])}
    except (OSError, ValueError, KeyError, TypeError):
        pass  # a run that was not evaluated, or whose report is damaged, has no error to tell
    return stored


def _rows(operator: "Operator") -> dict[str, str]:
    facts = facts_of(operator)
    rows = describe_problem(operator.problem)
    rows["model"] = (
        f"{type(operator.model).__name__}, {facts['parameters']} parameters, {facts['coefficients']} coefficients"
    )
    if "test_error" in facts:
        error = facts["test_error"]
        rows["error"] = f"{percent(error['mean'])} over {error['functions']} unseen functions"
    rows["estimates"] = "calibrated" if operator.calibration is not None else "not calibrated"
    if "trained" in facts:
        rows["trained"] = facts["trained"]
    return rows


def describe_operator(operator: "Operator") -> str:
    """An operator in a few lines."""
    rows = "".join(f"\n  {name:<9} {text}" for name, text in _rows(operator).items())
    return f"Operator of {type(operator.problem).__name__}{rows}"


def operator_html(operator: "Operator") -> str:
    """An operator as a notebook shows it."""
    return html_table(f"Operator of {type(operator.problem).__name__}", _rows(operator))
