"""Files of input functions and of solutions, as `predict` and `solve` take and leave them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from .._files import replacing
from ..domain import Domain
from ..equations.problem import Problem
from ..operator.request import check_size
from ..vtk import SUFFIXES, write_vtk

READABLE, WRITABLE = (".npy", ".csv", ".nc"), (".nc", ".npy", *SUFFIXES)


def check_output(output: Path) -> None:
    """Refuse a file that could not be written, before anything is computed."""
    if output.suffix not in WRITABLE:
        raise ValueError(f"--output must end in {' or '.join(WRITABLE)}, or .zarr for predict; got {output}")
    if not output.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {output.absolute().parent} for --output")


def read_input_files(problem: Problem, arguments: list[str], output: Path) -> dict[str, Any] | None:
    """The inputs that `--input` names, by name; None for a problem without any."""
    known = tuple(problem.inputs)
    if not known and not arguments:
        return None
    texts: dict[str, str] = {}
    for text in arguments:
        name, equals, file = text.partition("=")
        if equals:
            texts[name] = file
        elif len(known) == 1 or Path(text).suffix == ".nc":
            texts |= dict.fromkeys(known, text)
        else:
            raise ValueError(f"the inputs are {', '.join(known) or 'none'}; write --input NAME=FILE for each")
    if set(texts) != set(known):
        wanted = "give " + " ".join(f"--input {name}=FILE" for name in known) if known else "leave out --input"
        raise ValueError(f"the inputs are {', '.join(known) or 'none'}: {wanted}")
    if any(Path(text).absolute() == output.absolute() for text in texts.values()):
        raise ValueError(f"--output {output} would overwrite an input")
    return {name: _read(text, name, numeric=not problem.inputs[name].domain.names) for name, text in texts.items()}


def _read(text: str, name: str, numeric: bool) -> np.ndarray | xr.DataArray:
    numbers = _numbers(text) if numeric else None
    if numbers is not None:
        return numbers
    if Path(text).suffix not in READABLE:
        wanted = f"a {'number or a ' if numeric else ''}file that ends in {', '.join(READABLE)}"
        raise ValueError(f"input {name!r} must be {wanted}; got {text}")
    return read_input(Path(text), name)


def _numbers(text: str) -> np.ndarray | None:
    """A number, or the components of a vector, written instead of a file."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        return None
    return np.array(values if len(values) > 1 else values[0])


def read_input(file: Path, name: str) -> np.ndarray | xr.DataArray:
    """The values in a file, whatever their shape; a NetCDF file has a variable of that name, or a single one."""
    if not file.is_file():
        raise ValueError(f"there is no file {file} for the input {name!r}")
    try:
        if file.suffix == ".npy":
            array = np.load(file, allow_pickle=False)
            if not isinstance(array, np.ndarray):
                array.close()
                raise ValueError("it is an archive of several arrays (.npz); save the one that is meant with np.save")
            return array
        if file.suffix == ".csv":
            # As some programs write it, with a mark of the byte order at its beginning.
            with file.open(encoding="utf-8-sig") as text:
                return np.loadtxt(text, delimiter=",", ndmin=1)
        with xr.open_dataset(file, engine="netcdf4") as dataset:
            variables = list(dataset.data_vars)
            if name not in variables and len(variables) != 1:
                raise ValueError(f"it has the variables {', '.join(map(str, variables))}, none called {name!r}")
            return dataset[name if name in variables else variables[0]].load()
    except (OSError, ValueError, EOFError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{file} can't be read as the input {name!r}: {reason}") from None


def grid_points(problem: Problem, counts: Mapping[str, int]) -> dict[str, Any]:
    """The points along each axis: as many as `--grid` says, or those of the problem's own grid."""
    unknown = sorted(set(counts) - set(problem.domain))
    if unknown:
        raise ValueError(f"--grid names {', '.join(unknown)}; the axes are {', '.join(problem.domain)}")
    check_size(counts)
    points = {name: uniform(problem.domain, name, count) for name, count in counts.items()}
    # The grid of a problem may be costly to make, or missing: it is asked for only if an axis needs it.
    usual = problem.grid() if set(points) != set(problem.domain) else {}
    return {name: points[name] if name in points else usual[name] for name in problem.domain}


def uniform(domain: Domain, name: str, count: int) -> np.ndarray:
    """Points with both ends of an interval, and without the upper end of a periodic axis."""
    axis = domain.axis(name)
    return np.linspace(axis.lower, axis.upper, count, endpoint=not axis.periodic)


def write_fields(predicted: xr.DataArray | xr.Dataset, output: Path) -> None:
    """A NetCDF file with coordinates, VTK files, or the values alone."""
    try:
        if output.suffix in SUFFIXES:
            write_vtk(predicted, output)
            return
        with replacing(output) as fresh:
            if output.suffix == ".nc":
                predicted.to_netcdf(fresh, engine="netcdf4")
            else:
                np.save(fresh, _array(predicted))
    except (OSError, RuntimeError) as error:
        # NetCDF's library reports a full disk as a RuntimeError.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{output} can't be written ({reason}): make room, or choose another place") from None


def _array(predicted: xr.DataArray | xr.Dataset) -> np.ndarray:
    """Several fields stand along the first axis."""
    if isinstance(predicted, xr.Dataset):
        return np.stack([predicted[name].to_numpy() for name in predicted.data_vars])
    return predicted.to_numpy()
