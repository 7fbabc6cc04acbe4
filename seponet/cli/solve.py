"""`seponet solve`."""

from argparse import Namespace
from pathlib import Path

import numpy as np

from .._text import percent, show_duration
from ..runs.problems import make_problem
from ..runs.solve import solve
from .files import check_output, grid_points, read_input_files, write_fields
from .output import write_json, write_line, write_table
from .parser import constants_of

ROWS = 20
"""The most functions that the table lists."""

NOT_REACHED = 3
"""The exit code of an answer that is less accurate than was asked for."""


def solve_command(arguments: Namespace) -> int:
    output = Path(arguments.output)
    check_output(output)
    if output.exists() and not arguments.overwrite:
        raise ValueError(f"{output} exists already; choose another --output, or replace it with --overwrite")
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


def _show_errors(errors: np.ndarray, tolerance: float) -> None:
    """Function by function, or those with the largest errors if there are many."""
    shown = range(len(errors)) if len(errors) <= ROWS else np.argsort(-errors)[:ROWS]
    rows = [[str(i), percent(float(errors[i])), "reached" if errors[i] <= tolerance else "not reached"] for i in shown]
    title = f"Estimated relative L2 errors, tolerance {percent(tolerance)}"
    if len(errors) > ROWS:
        title += f": {int(np.sum(errors <= tolerance))} of {len(errors)} functions reached it; the {ROWS} largest"
    write_table(title, ["function", "error", ""], rows)
