"""A trained operator: evaluated anywhere with its error, corrected to a tolerance, saved and loaded."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import xarray as xr
from jaxtyping import Array

from .._numbers import whole
from .._precision import in_precision_of
from ..equations.folding import refuse_folds
from ..equations.problem import Problem
from ..functions import Functions
from ..nn.model import OperatorNetwork
from .basis_functions import tabulate_basis
from .calibrate import FUNCTIONS, calibrate
from .error import ErrorEstimator, error_field
from .error_labels import label_errors, with_errors
from .estimate import Calibration
from .evaluators import Evaluators
from .facts import describe_operator, operator_html
from .inputs import read_inputs
from .lazy import is_lazy, predict_lazily
from .picture import draw_operator
from .points import AnyEvaluator
from .request import requested_symbols, sensors_of
from .residuals import Residuals
from .rollout import roll_out
from .saving import load_parts, save_model
from .solving import solve_to
from .trust import Trust

logger = logging.getLogger(__name__)

MEMORY = 2**29
"""The default working memory in bytes."""


class Operator:
    """The map from input functions to solutions that a model has learned.

    ```python
    s = operator.predict(u, t=np.linspace(0, 1, 101), x=np.linspace(0, 1, 256))  # xarray (t, x)
    operator.predict(u, t=[0.1, 0.5], x=[0.3, 0.7], points=True)  # at two points
    operator.error(u)  # no reference needed
    operator.solve(u, rtol=1e-4, t=1.0, x=np.linspace(0, 1, 256))  # accuracy on demand
    ```

    An input `u` may be given as

    - an array `[*grid]`, one function, or `[functions, *grid]`, many: at the sensors or on any other uniform grid of
      the input's axes (both ends of an interval, a periodic axis without its upper end);
    - an `xarray.DataArray` with its coordinates, at most one dimension being no axis of the input; if it is
      in Dask's chunks, `predict` gives chunks too, which are predicted when they are computed;
    - a callable of the input's axes, or a list of callables;
    - `Functions`, for instance a sample of the problem;
    - a number or a vector for a scalar or vector input, with a leading axis for many.

    Components stand after the functions. Several inputs come as a mapping from their names. A model that was trained in
    float64 computes in float64, whatever the precision around it.

    **Arguments:**

    - `model`: a trained operator network.
    - `calibration`: of its error estimates; see `calibrate`.
    """

    def __init__(self, model: OperatorNetwork, calibration: Calibration | None = None) -> None:
        self.model, self.calibration = model, calibration
        self.folder: Path | None = None
        """Where it was loaded from, or the run that trained it."""
        self._estimator = ErrorEstimator(model, calibration)
        arrays, static = eqx.partition(model, eqx.is_array)

        @jax.jit
        def coefficients(arrays: Any, inputs: dict[str, Functions]) -> Array:
            network = eqx.combine(arrays, static)
            return network.coefficients(network.encode(inputs))

        self._coefficients = lambda inputs: coefficients(arrays, inputs)
        self._evaluators = Evaluators(model, self._coefficients)
        self._residuals = Residuals(model)

    @property
    def problem(self) -> Problem:
        """The equation that it solves."""
        return self.model.problem

    @property
    def term_names(self) -> tuple[str, ...]:
        """The names of the equations and of the conditions that are not exact."""
        return self._residuals.names

    def predict(
        self,
        u: Any = None,
        *,
        derivative: str | Sequence[str] | None = None,
        field: str | None = None,
        points: bool = False,
        error: bool = False,
        memory: int = MEMORY,
        **coordinates: Any,
    ) -> xr.DataArray | xr.Dataset:
        """The solution, with dimensions (function, axes...): a DataArray, or a Dataset if there are several.

        One function given without a functions' axis comes back without one, and so does an axis whose coordinate is a
        number. The trunks' tables of the last few grids are kept.

        **Arguments:**

        - `u`: the inputs.
        - `derivative`: one name like `"s_x"`, or several; by default the fields themselves.
        - `field`: one of several fields.
        - `points`: take the coordinates as those of scattered points, with dimensions (function, point). On a mapped
            domain they may be physical ones, `x=..., y=...`: the map is inverted, and points outside are NaN.
        - `error`: whether the estimated error of each function is to be among the coordinates: `error`, `upper_95` and
            `inside`. It is the fast estimate, at about the price of another prediction; `Operator.error` may take the
            sharper one, and looks at inputs outside once more, on a finer grid.
        - `memory`: the working memory in bytes, approximately and without the result.
        - `coordinates`: for each axis an array, or a number.
        """
        if is_lazy(u):
            options = {"derivative": derivative, "field": field, "points": points, "error": error, "memory": memory}
            return predict_lazily(self, u, {**options, **coordinates})
        evaluator = self.compile(derivative=derivative, field=field, points=points, memory=memory, **coordinates)
        if not error:
            return evaluator(u)
        with in_precision_of(self.model):
            inputs, count = self.read_inputs(u)
            level = None if self.calibration is None else "fast"
            errors, coefficients = self._errors(inputs, count, level, memory, finer=False)
            predicted = evaluator.label(evaluator.compute(inputs, count or 1, coefficients), count, inputs)
        return with_errors(predicted, errors)

    def error(
        self, u: Any = None, *, level: str | None = None, where: bool = False, memory: int = MEMORY, **coordinates: Any
    ) -> xr.Dataset:
        """The estimated relative L2 error of each prediction, from the equation alone: no reference is needed.

        Variables of the Dataset, for each function: `error`, the estimate; `upper_90` and `upper_95`, below which the
        error is with that probability, for inputs like those of the calibration; `inside`, whether the input is one,
        and `score`, which is above 1 if not. The attribute `note` says in words what is unusual about inputs outside,
        and so does a warning.

        An operator without a calibration has neither upper values nor a score; `calibrate` makes one.

        **Arguments:**

        - `u`: the inputs.
        - `level`: "fast", preconditioned residuals, at about the price of another prediction; or "solve", a Newton step
            in a larger basis; by default the one that was reliable at calibration.
        - `where`: give the estimated error as a field instead: prediction minus solution, as far as a Newton step in a
            larger basis tells, with the dimensions of `predict`.
        - `memory`: the working memory in bytes, approximately.
        - `coordinates`: with `where`, for each axis an array, or a number; by default the problem's grid.
        """
        with in_precision_of(self.model):
            inputs, count = self.read_inputs(u)
        if where:
            return error_field(self._estimator, self.compile(**self._points(coordinates), memory=memory), inputs, count)
        if coordinates:
            raise ValueError(
                "coordinates are for the error as a field: pass where=True with them, or leave out "
                f"{', '.join(coordinates)}"
            )
        return self._errors(inputs, count, level, memory)[0]

    def check_error(self) -> None:
        """A `ValueError` with the reason if `error` can't say anything about this operator."""
        self._estimator.base  # noqa: B018 it raises

    def calibrate(self, functions: int = FUNCTIONS) -> "Operator":
        """The same operator with calibrated error estimates: what `train` does at its end.

        Fresh inputs are drawn and solved, and the network's true errors are compared with their estimates. A
        `NotCalibrated`, which is a `ValueError`, says why that can't be done.

        **Arguments:**

        - `functions`: how many inputs.
        """
        calibrated = Operator(self.model, calibrate(self.model, whole("functions", functions, 0, 10**6)))
        calibrated.folder = self.folder
        return calibrated

    def solve(
        self,
        u: Any = None,
        rtol: float = 1e-3,
        *,
        derivative: str | Sequence[str] | None = None,
        field: str | None = None,
        points: bool = False,
        memory: int = MEMORY,
        **coordinates: Any,
    ) -> xr.DataArray | xr.Dataset:
        """The solution to a tolerance: the network's where that is enough, corrected where it is not.

        The network's answer is accepted on its calibrated error alone, and for an input outside of what was calibrated
        only with a wide margin. The others are corrected by Newton's method in the operator's basis (in smaller ones if
        `rtol` is loose) and then in larger ones, and accepted on the difference of two of these. What is not reached is
        said: by the error, the attribute `reason` and a warning.

        **Arguments:**

        - `u`: the inputs.
        - `rtol`: the relative L2 error that is wanted of each function, fields together.
        - the others: as for `predict`; without coordinates, on the problem's grid.

        **Returns:** what `predict` returns, with coordinates for each function: `error`, an upper estimate (infinite
        where nothing is known), `done` ("network", "corrected", "larger basis" or "not reached") and `seconds`; with
        how many of each, `reached` and `reason` as attributes.
        """
        evaluator = self.compile(
            derivative=derivative, field=field, points=points, memory=memory, **self._points(coordinates)
        )
        with in_precision_of(self.model):
            inputs, count = self.read_inputs(u)
        corrected = solve_to(self._estimator, inputs, count or 1, rtol, memory)
        if corrected.reason:
            logger.warning("rtol = %g was not reached for %s", rtol, corrected.reason)
        return corrected.label(evaluator.label(corrected.values(evaluator, inputs), count, inputs), count)

    def compile(
        self,
        *,
        derivative: str | Sequence[str] | None = None,
        field: str | None = None,
        points: bool = False,
        memory: int = MEMORY,
        **coordinates: Any,
    ) -> AnyEvaluator:
        """A compiled evaluator on one grid: a new input costs a pass of the branch and a contraction. See `predict`."""
        symbols = requested_symbols(self.problem, derivative, field)
        return self._evaluators.get(symbols, coordinates, points=points, memory=memory)

    def evaluate(
        self,
        values: Any = None,
        *,
        derivative: str | Sequence[str] | None = None,
        field: str | None = None,
        points: bool = False,
        **coordinates: Any,
    ) -> Any:
        """`predict` as a pure function of values at the sensors: plain arrays, for use under `jax.jit` and `jax.grad`.

        `values` is `[*sensors]` or `[functions, *sensors]`, or a mapping from the names of the inputs; the exact
        conditions see the function that interpolates them. Coordinates are constants. Nothing is chunked.

        **Returns:** one array, or a dictionary by name if several fields or derivatives are asked for.
        """
        return self.compile(derivative=derivative, field=field, points=points, **coordinates).evaluate(values)

    def advance(self, u: Any = None, *, residual: bool = False, error: bool = False, **coordinates: Any) -> xr.Dataset:
        """The solution beyond the window of time that the model was trained on, by as many windows as it takes.

        The state at the end of each window is the input of the next (`rollout.py`). A Dataset of all fields, and with
        `residual` the root mean squares of the equations in every window, (function, window): where they grow, so does
        the error.

        **Arguments:**

        - `u`: the inputs.
        - `residual`: whether to judge every window.
        - `error`: whether to estimate the error of every window, those of earlier ones carried along: `error`,
            `upper_90`, `upper_95` and `inside`, (function, window).
        - `coordinates`: for each axis an array, or a number; times may lie beyond the window.
        """
        return roll_out(self, u, coordinates, residual, error)

    def residual(self, u: Any = None, *, nodes: Mapping[str, int] | None = None, memory: int = MEMORY) -> xr.Dataset:
        """The root mean square of each equation and soft condition, for each function: no reference is needed.

        **Arguments:**

        - `u`: the inputs.
        - `nodes`: the number of quadrature nodes along each axis; by default enough for the basis functions and for
            the inputs.
        - `memory`: the working memory in bytes, approximately.
        """
        with in_precision_of(self.model):
            inputs, count = self.read_inputs(u)
            return self._residuals(inputs, count, nodes, memory)

    def basis(self, points: int = 201) -> dict[str, xr.DataArray]:
        """The basis functions on a uniform grid.

        **Arguments:**

        - `points`: how many along each axis.

        **Returns:** for each axis its factors, with dimensions (field or potential, k, axis). A DeepONet's functions
        depend on all axes together, so there is one entry, (field, k, axes...), named after all of them.
        """
        return tabulate_basis(self.model, points)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the operator to a new folder: `operator.json` and `arrays.npz`. No pickle; whole or not at all."""
        save_model(path, self.model, overwrite=overwrite, calibration=self.calibration)

    @classmethod
    def load(cls, path: str | Path, *, problem: type[Problem] | None = None, trust: bool = False) -> "Operator":
        """The operator in a folder that `save` wrote; see `seponet.load`."""
        operator = cls(*load_parts(path, Trust(trust, () if problem is None else (problem,))))
        operator.folder = Path(path)
        return operator

    def export(self, path: str | Path, **coordinates: Any) -> Path:
        """Write the operator on one grid to a file that needs no JAX, from values at the sensors to the fields.

        - `.html`: a page on which the input is drawn and the solution watched, with its estimated error; one file, no
          server, no network.
        - `.npz`: for NumPy alone. `seponet_frozen.py`, the runtime in one file, is put beside it (`seponet.frozen`).
        - `.onnx`: for any ONNX runtime; needs `pip install 'seponet[onnx]'`.

        **Arguments:**

        - `path`: the file.
        - `coordinates`: for each axis an array, or a number; axes that are left out get 101 points (201 if there is
            one axis, 21 x 49 x 49 if there are three).

        **Returns:** the path.
        """
        from .export import export

        return export(self, Path(path), coordinates)

    def plot(self, u: Any = None, *, error: bool = True, **coordinates: Any) -> Any:
        """Draw the input, the solution, and where it is wrong, for one function: a Matplotlib figure.

        **Arguments:**

        - `u`: the inputs of one function; of many the first is drawn.
        - `error`: whether to estimate where it is wrong (`error(u, where=True)`), which takes a Newton step.
        - `coordinates`: for each axis an array, or a number; by default the problem's own grid.
        """
        return draw_operator(self, u, self._points(coordinates), error)

    def __repr__(self) -> str:
        return describe_operator(self)

    def _repr_html_(self) -> str:
        return operator_html(self)

    def read_inputs(self, u: Any) -> tuple[dict[str, Functions], int | None]:
        """Batches of inputs and of what is derived from them, and their number; None without a functions' axis."""
        inputs, count = read_inputs(self.problem, sensors_of(self.problem, self.model.sensors), u)
        inputs = self.problem.complete(inputs)
        refuse_folds(self.problem.chart, inputs)
        return inputs, count

    def _errors(
        self, inputs: dict[str, Functions], count: int | None, level: str | None, memory: int, finer: bool = True
    ) -> tuple[xr.Dataset, Array]:
        """Estimates, and the coefficients that were computed for them."""
        level = self._estimator.choose_level(level)
        estimated = self._estimator.estimate(inputs, count or 1, level, memory, finer)
        note = self._estimator.note(estimated)
        if note:
            logger.warning("%s", note)
        return label_errors(estimated.found, count, {"level": level, "note": note}), estimated.coefficients

    def _points(self, coordinates: Mapping[str, Any]) -> Mapping[str, Any]:
        """The problem's grid where nothing else is asked for."""
        return coordinates or self.problem.grid()


def load(path: str | Path, *, problem: type[Problem] | None = None, trust: bool = False) -> Operator:
    """The operator in a run folder, or in a folder that `Operator.save` wrote.

    No code runs but the package's: a problem of one's own is the class that is passed, one that this process has
    defined, or one in a file that this user has trained with and that has not changed since. Any other is refused with
    its file and digest.

    **Arguments:**

    - `path`: the folder.
    - `problem`: the class of the problem, if it is not one of the package.
    - `trust`: run the files and import the modules that the folder names; for folders of people whose code you would
        run as well.

    **Returns:** the operator, with its calibration if it has one.
    """
    folder = Path(path)
    if not folder.exists():
        raise ValueError(f"there is no run {path}")
    if (folder / "config.toml").exists() and not (folder / "operator").exists():
        raise ValueError(
            f"the run in {path} has not been trained to its end; go on with it: seponet train --resume --out {path}"
        )
    return Operator.load(path, problem=problem, trust=trust)
