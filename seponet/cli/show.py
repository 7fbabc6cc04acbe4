"""`seponet list`, `seponet info` and `seponet plot`."""

import logging
from argparse import Namespace
from dataclasses import asdict
from typing import Any

from .._text import show_duration
from ..distributed.session import facts as group_facts
from ..distributed.session import joined
from ..equations.describe import equation_of
from ..equations.problem import Problem
from ..evaluation.break_even import describe_break_even
from ..operator.description import count_parameters
from ..operator.error_labels import describe_calibration
from ..operator.operator import load
from ..operator.saving import load_calibration, read_description
from ..problems import PROBLEMS
from ..problems.published import paper_figure
from ..runs.config import read_tables
from ..runs.figures import plot_run
from ..runs.folder import RunFolder
from ..runs.recipes import recipes_of
from ..training.recipe import Recipe, flat
from . import sentence_of
from .evaluate import own_problem
from .output import write_json, write_line, write_table

logger = logging.getLogger(__name__)


def list_command(arguments: Namespace) -> int:
    problems = [_describe(name, kind) for name, kind in PROBLEMS.items()]
    if arguments.json:
        write_json({"problems": problems})
        return 0
    rows = [[p["name"], p["equation"], ", ".join(p["recipes"]), _error(p["paper"])] for p in problems]
    write_table("Problems", ["name", "equation", "recipes", "paper's error"], rows)
    write_line(
        "The paper's errors are its SepONet's, trained on an A100. Your own: seponet train path/to/file.py:ClassName"
    )
    return 0


def info_command(arguments: Namespace) -> int:
    if arguments.distributed:
        return _show_group(arguments)
    folder = RunFolder(arguments.run)
    facts = _inspect(folder)
    if arguments.json:
        write_json(facts)
        return 0
    report = facts["report"]
    rows = [["state", facts["state"]]]
    rows += [[key, str(value)] for key, value in facts["config"].items() if key in ("problem", "recipe", "seed")]
    defaults = Recipe().to_dict()
    for table in ("constants", "model", "train"):
        usual, settings = flat(defaults.get(table, {})), flat(facts["config"].get(table, {}))
        changed = [f"{key} = {value}" for key, value in settings.items() if usual.get(key) != value]
        rows += [[table, ", ".join(changed)]] if changed else []
    if facts["last"]:
        rows += [["last step", str(facts["last"]["step"])], ["loss", f"{facts['last']['loss']:.3g}"]]
    if "training_seconds" in report:
        rows += [["training time", show_duration(report["training_seconds"])]]
    if "relative_l2_mean" in report:
        rows += [["relative L2 error", f"{100 * report['relative_l2_mean']:.3g}% over {report['functions']} functions"]]
    if facts["calibration"]:
        rows += [["error estimates", facts["calibration"]]]
    paid = describe_break_even(report)
    if paid:
        rows += [["paid for itself after", paid]]
    if facts["parameters"] is not None:
        rows += [["parameters", str(facts["parameters"])]]
    write_table(str(folder.path), None, rows)
    return 0


def _show_group(arguments: Namespace) -> int:
    """What the processes of this command see of each other, by an all-reduce over their devices."""
    with joined(arguments.star, lambda error: f"seponet info: {sentence_of(error)}") as group:
        with group.computing():
            facts = group_facts(group)
        if not group.leader:
            return 0
        if arguments.json:
            write_json(facts)
            return 0
        took = (
            f"{facts['devices']} ({facts['platform']}), an all-reduce takes {1e3 * facts['all_reduce_seconds']:.2g} ms"
        )
        rows = [["processes", str(facts["processes"])], ["devices", took]]
        for member in facts["members"]:
            devices = ", ".join(member["devices"])
            rows.append([f"process {member['process']}", f"{member['host']}, pid {member['pid']}: {devices}"])
        write_table("Processes", None, rows)
    return 0


def plot_command(arguments: Namespace) -> int:
    operator = load(arguments.run, problem=own_problem(arguments), trust=arguments.trust)
    for path in plot_run(RunFolder(arguments.run), operator):
        write_line(str(path))
    return 0


def _describe(name: str, kind: type[Problem]) -> dict[str, Any]:
    figure = paper_figure(kind())
    return {
        "name": name,
        "equation": equation_of(kind),
        "recipes": recipes_of(name),
        "paper": None if figure is None else asdict(figure),
    }


def _error(figure: dict[str, Any] | None) -> str:
    return "-" if figure is None else f"{100 * figure['relative_l2_mean']:.3g}%"


def _inspect(folder: RunFolder) -> dict[str, Any]:
    if not folder.path.is_dir():
        raise ValueError(f"there is no run {folder.path}")
    # Nothing that a folder names is imported: what it says about itself is shown, and its arrays are counted.
    text = folder.read_config()
    config = {} if text is None else read_tables(text, str(folder.config))
    report, last = folder.read_report(), folder.last_metrics()
    if last.get("step", 0) < report.get("steps", 0):
        logger.warning("the log of %s ends before the %d steps of its report", folder.path, report["steps"])
    trained = folder.operator.exists() or not config
    parameters, calibration = None, ""
    if trained:
        parameters = count_parameters(read_description(folder.path).model)
        found = load_calibration(folder.path)
        reason = report.get("calibration", {}).get("reason")
        calibration = f"not calibrated{f': {reason}' if reason else ''}"
        if found is not None:
            calibration = describe_calibration(found)
    steps = config.get("train", {}).get("steps")
    # A run under a budget has a length once that is known, and a tolerance may end one before its last step.
    steps = report.get("length") if steps == "auto" else steps
    stepped = report.get("end") in ("complete", "tolerance") or steps is None or report.get("steps", 0) >= steps
    state = f"stopped after {last.get('step', 0)} of {steps} steps"
    if trained and stepped:
        state = "stopped in the polish" if report.get("interrupted", False) else "complete"
    return {
        "path": str(folder.path),
        "state": state,
        "parameters": parameters,
        "calibration": calibration,
        "config": config,
        "last": last,
        "report": report,
    }
