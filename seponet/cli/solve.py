"""`seponet solve`."""

import time
from argparse import Namespace
from pathlib import Path

import numpy as np

from .._precision import in_precision_of
from .._text import percent, show_duration
from ..operator.operator import load
from ..runs.problems import make_problem
from ..runs.solve import solve
from .evaluate import own_problem
from .files import check_output, grid_points, read_input_files, write_fields
from .output import NOT_REACHED, write_json, write_line, write_table
from .values import constants_of

ROWS = 20
"""The most functions that the table lists."""


def solve_command(arguments: Namespace) -> int:
    output = Path(arguments.output)
    check_output(output)
    if output.exists() and not arguments.overwrite:
        raise ValueError(f"{output} exists already; choose another --output, or replace it with --overwrite")
    if _is_run(arguments.problem):
        return _solve_by_run(arguments, output)
    problem = make_problem(arguments.problem, constants_of(arguments.set, "a solution"))
    inputs = read_input_files(problem, arguments.input, output)
    solved = solve(problem, inputs, arguments.tolerance, **grid_points(problem, arguments.grid))
    write_fields(solved, output)
    errors = np.atleast_1d(solved["error"].to_numpy())
    if arguments.json:
        write_json({"output": str(output), "sizes": dict(solved.sizes), **solved.attrs, "errors": errors.tolist()})
    else:
        write_line(f"{output}: {', '.join(f'{name} {size}' for name, size in solved.sizes.items()) or 'one number'}")
        _show_errors(errors, arguments.tolerance)
        attributes = solved.attrs
        write_line(
            f"{attributes['trial_functions']} functions, {attributes['nodes']} nodes, {attributes['method']}: "
            f"{show_duration(attributes['seconds'])}"
        )
    return 0 if solved.attrs["reached"] == len(errors) else NOT_REACHED


def _is_run(text: str) -> bool:
    """Whether a folder, rather than the name of a problem, is meant."""
    return Path(text).is_dir() and ((Path(text) / "operator").exists() or (Path(text) / "operator.json").exists())


def _solve_by_run(arguments: Namespace, output: Path) -> int:
    if arguments.set:
        raise ValueError("a run has its own constants, so leave out --set")
    operator = load(arguments.problem, problem=own_problem(arguments), trust=arguments.trust)
    began = time.perf_counter()
    with in_precision_of(operator.model):
        inputs = read_input_files(operator.problem, arguments.input, output)
    solved = operator.solve(inputs, arguments.tolerance, **grid_points(operator.problem, arguments.grid))
    write_fields(solved, output)
    errors, done = (np.atleast_1d(solved[name].to_numpy()) for name in ("error", "done"))
    if arguments.json:
        told = {"errors": errors.tolist(), "done": done.tolist()}
        write_json({"output": str(output), "sizes": dict(solved.sizes), **solved.attrs, **told})
    else:
        write_line(f"{output}: {', '.join(f'{name} {size}' for name, size in solved.sizes.items()) or 'one number'}")
        _show_errors(errors, arguments.tolerance, done)
        write_line(f"{len(errors)} functions in {show_duration(time.perf_counter() - began)}, compilation included")
    return 0 if solved.attrs["reached"] == len(errors) else NOT_REACHED


def _show_errors(errors: np.ndarray, tolerance: float, done: np.ndarray | None = None) -> None:
    """Function by function, or those with the largest errors if there are many."""
    shown = range(len(errors)) if len(errors) <= ROWS else np.argsort(-errors)[:ROWS]
    words = np.where(errors <= tolerance, "reached", "not reached") if done is None else done
    rows = [[str(i), percent(float(errors[i])), str(words[i])] for i in shown]
    title = f"Estimated relative L2 errors, tolerance {percent(tolerance)}"
    if len(errors) > ROWS:
        title += f": {int(np.sum(errors <= tolerance))} of {len(errors)} functions reached it; the {ROWS} largest"
    write_table(title, ["function", "error", ""], rows)
