"""`seponet predict`."""

from argparse import Namespace
from pathlib import Path

import numpy as np
import xarray as xr

from .._precision import in_precision_of
from .._text import percent
from ..evaluation.report import summarise_residuals
from ..operator.operator import Operator, load
from ..runs.folder import RunFolder
from ..runs.transfer import open_inputs, transfer
from ..training.progress import progress_bar
from .evaluate import own_problem, show_residuals
from .files import check_output, grid_points, read_input_files, write_fields
from .output import write_line, write_table

ZARR = ".zarr"
ROWS = 20
"""The most functions that the table lists."""


def predict_command(arguments: Namespace) -> int:
    folder, output = RunFolder(arguments.run), Path(arguments.output)
    if output.suffix == ZARR:
        return _transfer(arguments, output)
    check_output(output)
    operator = load(folder.path, problem=own_problem(arguments), trust=arguments.trust)
    with in_precision_of(operator.model):
        inputs = read_input_files(operator.problem, arguments.input, output)
        reason = "" if arguments.no_error else _no_estimate(operator)
        estimated = not (reason or arguments.no_error)
        predicted = operator.predict(inputs, error=estimated, **grid_points(operator.problem, arguments.grid))
        residuals = summarise_residuals(operator.residual(inputs))
    write_fields(predicted, output)
    shape = ", ".join(f"{name} {size}" for name, size in predicted.sizes.items())
    write_line(f"{output}: {shape}")
    if estimated:
        show_errors(predicted)
    elif reason:
        write_line(f"There are no error estimates: {reason}")
    show_residuals(residuals)
    return 0


def _transfer(arguments: Namespace, output: Path) -> int:
    """From one Zarr store into another, however large."""
    if len(arguments.input) != 1 or Path(arguments.input[0]).suffix != ZARR:
        raise ValueError(f"an --output {output} is made from one --input that ends in {ZARR} too")
    if not output.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {output.absolute().parent} for --output")
    source = Path(arguments.input[0])
    if source.absolute() == output.absolute():
        raise ValueError(f"--output {output} would overwrite an input")
    operator = load(RunFolder(arguments.run).path, problem=own_problem(arguments), trust=arguments.trust)
    inputs = open_inputs(operator.problem, source)
    with progress_bar("predicting") as progress:
        count, before = transfer(
            operator,
            inputs,
            output,
            points=grid_points(operator.problem, arguments.grid),
            overwrite=arguments.overwrite,
            progress=progress,
        )
    write_line(f"{output}: {count} functions" + (f", {before} of which had been done before" if before else ""))
    return 0


def show_errors(predicted: xr.DataArray | xr.Dataset) -> None:
    """Function by function, or those with the largest errors if there are many."""
    errors, upper, inside = (np.atleast_1d(predicted[name].to_numpy()) for name in ("error", "upper_95", "inside"))
    shown = range(len(errors)) if len(errors) <= ROWS else np.argsort(-errors)[:ROWS]
    places = np.where(inside, "inside", np.where(np.isnan(upper), "not calibrated", "outside"))
    rows = [[str(i), percent(float(errors[i])), percent(float(upper[i])), str(places[i])] for i in shown]
    more = f": the {ROWS} largest of {len(errors)}" if len(errors) > ROWS else ""
    write_table(f"Estimated relative L2 errors{more}", ["function", "estimate", "95% below", "calibrated inputs"], rows)


def _no_estimate(operator: Operator) -> str:
    """Why errors can't be estimated; empty if they can."""
    try:
        operator.check_error()
    except ValueError as error:
        return str(error)
    return ""
