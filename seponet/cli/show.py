"""`seponet list`, `seponet info` and `seponet plot`."""

from argparse import Namespace
from dataclasses import asdict
from typing import Any

import equinox as eqx
import jax

from .._text import show_duration
from ..equations.describe import equation_of
from ..equations.problem import Problem
from ..nn.fixed import trainable
from ..operator.operator import load
from ..problems import PROBLEMS
from ..problems.published import paper_figure
from ..runs.config import RunConfig
from ..runs.figures import plot_run
from ..runs.folder import RunFolder
from ..runs.recipes import recipes_of
from ..training.recipe import Recipe, flat
from .output import write_json, write_line, write_table


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
    if facts["parameters"] is not None:
        rows += [["parameters", str(facts["parameters"])]]
    write_table(str(folder.path), None, rows)
    return 0


def plot_command(arguments: Namespace) -> int:
    for path in plot_run(RunFolder(arguments.run), load(arguments.run)):
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
    config = RunConfig.read(folder.config).to_dict() if folder.config.exists() else {}
    report, last = folder.read_report(), folder.last_metrics()
    trained = folder.operator.exists() or not config
    parameters = None
    if trained:
        model = load(folder.path).model
        parameters = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(model, trainable(model))))
    steps = config.get("train", {}).get("steps")
    complete = trained and (steps is None or report.get("steps", 0) >= steps)
    state = "complete" if complete else f"stopped after {last.get('step', 0)} of {steps} steps"
    return {
        "path": str(folder.path),
        "state": state,
        "parameters": parameters,
        "config": config,
        "last": last,
        "report": report,
    }
