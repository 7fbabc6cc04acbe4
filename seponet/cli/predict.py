"""`seponet predict`."""

from argparse import Namespace
from pathlib import Path

from .._precision import in_precision_of
from ..evaluation.report import summarise_residuals
from ..operator.operator import load
from ..runs.folder import RunFolder
from .evaluate import own_problem, show_residuals
from .files import check_output, grid_points, read_input_files, write_fields
from .output import write_line


def predict_command(arguments: Namespace) -> int:
    folder, output = RunFolder(arguments.run), Path(arguments.output)
    check_output(output)
    operator = load(folder.path, problem=own_problem(arguments), trust=arguments.trust)
    with in_precision_of(operator.model):
        inputs = read_input_files(operator.problem, arguments.input, output)
        predicted = operator.predict(inputs, **grid_points(operator.problem, arguments.grid))
        residuals = summarise_residuals(operator.residual(inputs))
    write_fields(predicted, output)
    shape = ", ".join(f"{name} {size}" for name, size in predicted.sizes.items())
    write_line(f"{output}: {shape}")
    show_residuals(residuals)
    return 0
