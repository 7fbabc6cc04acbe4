"""The basis functions of a model on a uniform grid, labelled."""

import numpy as np
import xarray as xr

from .._numbers import whole
from .._precision import in_precision_of
from ..nn.model import OperatorNetwork
from .nodes import MOST
from .request import check_size, locate


def tabulate_basis(model: OperatorNetwork, points: int) -> dict[str, xr.DataArray]:
    """For each axis its factors; see `Operator.basis`."""
    domain, fields = model.problem.domain, model.problem.fields
    whole("points", points, 1, MOST)
    check_size(dict.fromkeys(domain, points) if not model.separable else {"point": points})
    coordinates = {name: np.linspace(axis.lower, axis.upper, points) for name, axis in domain.axes}
    with in_precision_of(model):
        where, _ = locate(domain, coordinates)
        values = model.basis_values(where, where, {None: frozenset({()})})[None]
    factors = values.factors(domain.names)
    if factors is None:
        raise ValueError(f"a {type(model).__name__} evaluates its trunk for each function and keeps no basis")
    arrays: dict[str, xr.DataArray] = {}
    for axes, functions in factors.values.items():
        owners = fields if factors.owner == "field" else range(functions.shape[0])
        labels = {factors.owner: list(owners)} | {name: coordinates[name] for name in axes}
        arrays[",".join(axes)] = xr.DataArray(np.asarray(functions), labels, (factors.owner, "k", *axes))
    return arrays
