r"""The error of a prediction, estimated from the equation alone: pure functions of a model, a calibration and inputs.

A residual is no error: it has to be led back through the equation. With the tested residuals $G$ of the prediction in a
basis that is larger than its own, and the averaged Jacobian $P = E_u[\partial G / \partial c]$,

$$g(u) = |P^{-1} G| \,/\, |s|$$

is the relative L2 error to first order, of a function whose Jacobian is the average. What is stored is not $P^{-1}$ but
$S P^{-1}$ with a random matrix $S$ of few rows: it keeps lengths to a few per cent (Johnson and Lindenstrauss), so an
estimate costs about one more prediction. How far $g$ is from the truth was measured once, on functions that were solved
(`calibrate.py`): quantiles of truth / g turn it into an estimate and into upper values.

```python
found = estimate(model, calibration, sensor_values)      # under `jax.jit`, or exported
found.error, found.upper_90, found.upper_95              # relative L2 errors, [functions]
found.score <= 1                                         # inside of what was calibrated
```
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from ..calculus.collocation import Nodes
from ..discretise.discretisation import Discretisation, Ranks
from ..discretise.norms import solution_norms
from ..discretise.tested import TestedResiduals
from ..functions.interpolant import interpolate
from ..locations import Evaluable
from ..nn.model import OperatorNetwork
from .input_range import InputRange, score

LEVELS = ("fast", "solve")
"""How an error is estimated: by preconditioned residuals, or by a Newton step in the larger basis."""

WIDER = 1.5
"""How many times as large upper values are for inputs outside of the calibration. Nothing is promised there. It was
chosen on Burgers' equation with inputs twice as large: 83% of its errors were below the 95% value without it."""

FIRMEST = (1.2, 1.25, 1.25)
"""What 90% values, 95% values and claims are at least, in units of the estimate. Ratios that hardly scatter would
promise errors to a per cent; but sums over a uniform grid, in which users see them, differ from integrals by a tenth
where an error is largest at the boundary (FisherKPP of the zoo), and inputs differ a little from those of a
calibration."""

UNSEEN = 1e-3
"""The part of an input that the quadrature of an estimate may miss, as a rule: it is asked for two digits."""

LARGEST = 0.98
"""Beyond this upper value, relative to the prediction, hardly anything is known of the solution's norm."""

Numbers = Float[Array | np.ndarray, " functions"]
"""One for each function; JAX's in a traced program, NumPy's in a report."""


class Ratios(eqx.Module):
    """True errors relative to estimates, over the functions of a calibration.

    **Arguments:**

    - `median`, `upper_90`, `upper_95`: quantiles; the upper ones are those that a new function stays below with that
        probability, whatever the distribution (conformal ranks).
    - `certain`: beyond all that occurred: what a claim without a look at the function itself is based on.
    - `spread`: of the ratios, 95% quantile over 5% quantile: how much one function differs from another.
    """

    median: float = eqx.field(static=True)
    upper_90: float = eqx.field(static=True)
    upper_95: float = eqx.field(static=True)
    certain: float = eqx.field(static=True)
    spread: float = eqx.field(static=True)

    @classmethod
    def of(cls, truths: Float64[np.ndarray, " functions"], estimates: Float64[np.ndarray, " functions"]) -> "Ratios":
        ratios = np.sort(truths / np.maximum(estimates, 1e-300))
        median = float(np.median(ratios))
        upper_90, upper_95 = (float(ratios[min(_rank(len(ratios), q), len(ratios)) - 1]) for q in (0.9, 0.95))
        # The 99.5% quantile of a normal distribution of the logarithms with that 95% quantile, or the largest of all.
        certain = max(float(ratios[-1]), median * (upper_95 / median) ** (2.58 / 1.645))
        spread = float(np.quantile(ratios, 0.95) / max(np.quantile(ratios, 0.05), 1e-300))
        return cls(median, upper_90, upper_95, certain, spread)

    @property
    def factors(self) -> tuple[float, float, float]:
        """What an uncalibrated estimate is multiplied by: for a 90% value, a 95% value, and for a claim."""
        at_90, at_95, sure = (least * self.median for least in FIRMEST)
        return max(self.upper_90, at_90), max(self.upper_95, at_95), max(self.certain, sure)


class Calibration(eqx.Module):
    """How reliable the error estimates of an operator are, measured once on functions that were solved.

    **Arguments:**

    - `ranks`: the number of trial functions along each axis of the larger basis.
    - `smoothed`: see `Discretisation`.
    - `nodes`: the quadrature of the residuals.
    - `sketch`: $S P^{-1}$, from tested rows to a few numbers of the same length.
    - `fast`, `solve`: the ratios of the two levels.
    - `level`: the one that was reliable.
    - `ranges`: of the inputs.
    - `truths`, `estimates`: the errors of the functions that were solved, and their estimates `[levels, functions]`
        before ratios are applied.
    - `functions`: how many were tried.
    - `unseen`: the part of an input that the quadrature may miss.
    """

    ranks: Ranks = eqx.field(static=True)
    smoothed: tuple[str, ...] = eqx.field(static=True)
    nodes: Nodes = eqx.field(static=True)
    sketch: Float[Array, "k rows"]
    fast: Ratios
    solve: Ratios
    level: str = eqx.field(static=True)
    ranges: tuple[InputRange, ...]
    truths: Float[Array, " functions"]
    estimates: Float[Array, "levels functions"]
    functions: int = eqx.field(static=True)
    unseen: float = eqx.field(static=True, default=UNSEEN)

    def ratios(self, level: str) -> Ratios:
        return self.fast if level == "fast" else self.solve

    @property
    def error(self) -> float:
        """The mean relative L2 error of the functions that were solved."""
        return float(np.mean(np.asarray(self.truths)))

    def report(self) -> dict[str, Any]:
        """What a report says of it: plain numbers."""
        ratios = self.ratios(self.level)
        upper_90, upper_95, _ = ratios.factors
        return {
            "level": self.level,
            "functions": len(self.truths),
            "tried": self.functions,
            "relative_l2_mean": self.error,
            "upper_90": upper_90 / ratios.median,
            "upper_95": upper_95 / ratios.median,
        }


class Estimate(NamedTuple):
    """Estimated relative L2 errors of some functions, all fields together.

    - `error`: the estimate.
    - `upper_90`, `upper_95`: what the error stays below with that probability, for inputs like the calibrated ones.
    - `score`: how far the input lies outside of these: at most one is inside.
    """

    error: Numbers
    upper_90: Numbers
    upper_95: Numbers
    score: Numbers


def estimate(model: OperatorNetwork, calibration: Calibration, sensor_values: Mapping[str, Array]) -> Estimate:
    """The errors of predictions for values at the sensors: a pure function, which may be compiled, differentiated and
    exported. It is the level "fast", whatever the calibration prefers.

    **Arguments:**

    - `model`: the network.
    - `calibration`: of the same operator.
    - `sensor_values`: for each of the problem's inputs `[functions, *components, *sensors]`, as `Operator.evaluate`
        takes them; the exact conditions see the functions that interpolate them.
    """
    spaces = model.problem.inputs
    functions = model.problem.complete({name: interpolate(spaces[name], v) for name, v in sensor_values.items()})
    count = max((v.shape[0] for v in sensor_values.values()), default=1)
    seen = dict(sensor_values) if set(sensor_values) == {n for n, _ in model.sensors} else model.encode(functions)
    size = preconditioned_residual(model, calibration, functions, model.coefficients(seen))
    return scaled(calibration.fast, size, score(calibration.ranges, seen, count))


def larger_basis(model: OperatorNetwork, calibration: Calibration) -> Discretisation:
    """The basis that the errors of a model are looked for in."""
    return Discretisation(model.problem, model.exact, calibration.ranks, calibration.smoothed)


def scaled(ratios: Ratios, size: Numbers, outside: Numbers) -> Estimate:
    """The estimate that belongs to an uncalibrated one; upper values of inputs outside are wider."""
    upper = (1 + (WIDER - 1) * (outside > 1)) * size
    upper_90, upper_95, _ = ratios.factors
    return Estimate(
        ratios.median * size, of_solution(upper_90 * upper, outside), of_solution(upper_95 * upper, outside), outside
    )


def of_solution(upper: Numbers, outside: Numbers) -> Numbers:
    """Upper values relative to the norms of solutions. The ratios of a calibration lead there from estimates relative
    to predictions, so inside nothing is to be done. Outside, a solution may be smaller than its prediction by as much
    as the error: u / (1 - u), and no more than fifty times u."""
    return upper / (1 - (outside > 1) * upper.clip(max=LARGEST))


def preconditioned_residual(
    model: OperatorNetwork,
    calibration: Calibration,
    inputs: Mapping[str, Evaluable],
    coefficients: Float[Array, "functions fields *_"],
    nodes: Nodes | None = None,
) -> Float[Array, " functions"]:
    """|P^-1 G| / |s| for given coefficients: the relative error before it is calibrated.

    **Arguments:**

    - `inputs`: functions by name, derived ones included.
    - `coefficients`: those of the model for these inputs.
    - `nodes`: the quadrature, if it shall not be that of the calibration: for rougher inputs.
    """
    larger = larger_basis(model, calibration)
    nodes = nodes or calibration.nodes
    tested = TestedResiduals(larger, nodes, inputs, len(coefficients), model)
    lengths = jnp.matmul(tested(coefficients), calibration.sketch.T, precision="highest")
    # Lengths of coefficients are norms over the box, so they are compared with such; ratios make them physical.
    norms = solution_norms(model, inputs, nodes, coefficients, physical=False)
    return jnp.linalg.norm(lengths, axis=1) / jnp.maximum(norms, jnp.finfo(norms.dtype).tiny)


def _rank(count: int, probability: float) -> int:
    """Which of the sorted ratios a new one stays below with a probability, if all are exchangeable."""
    return int(np.ceil((count + 1) * probability))
