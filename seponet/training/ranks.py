r"""How many basis functions a problem needs along each axis, before anything is trained.

The best that any branch can do with given ranks is their *residual floor*: the error of the coefficients that minimise
the residual. Gauss-Newton finds the coefficients c of a few sampled functions in one generous basis; all smaller ones
then cost linear algebra only. Classical bases are nested and orthonormal: with the embedding B of a smaller one, and
A = J^T J at c, the residual is smallest there, to first order, for

$$c_r = B\,(B^T A B)^{-1} B^T A\, c,$$

and $|c - c_r| / \|s\|$ is its error. The projection error of a basis is much smaller and says little: residuals weigh
what is left out by its derivatives, and pay for it in all other coefficients.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from ..bases.orthonormal import Orthonormal
from ..bases.quadrature import quadrature
from ..calculus.collocation import make_collocation, quadrature_nodes
from ..calculus.evaluate import evaluate
from ..calculus.model import FixedCoefficients
from ..equations.invariance import invariant_axis
from ..equations.problem import Problem
from ..equations.symbols import Symbol
from ..losses.linearised import normal_equations
from ..nn.build import build
from ..nn.trunks import BasisTrunk
from ..operator.refinement import gauss_newton
from .recipe import Recipe

LADDER = (3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96)
"""Ranks that are tried."""

SIZE = 1024
"""Coefficients of the generous basis, all fields together: a Gauss-Newton step for one function then takes a second."""


@dataclass(frozen=True)
class Floor:
    """The residual floor of some ranks: mean relative L2 error over a few functions."""

    ranks: Mapping[str, int]
    error: float


class Floors:
    """Residual floors of all classical bases that are no larger than a generous one, all conditions being exact.

    **Arguments:**

    - `problem`: the equation.
    - `ranks`: of the generous basis; by default equal ones with `SIZE` coefficients in all.
    - `functions`: how many sampled functions.
    - `steps`: of Gauss-Newton.
    """

    def __init__(
        self, problem: Problem, ranks: Mapping[str, int] | None = None, *, functions: int = 3, steps: int = 6
    ) -> None:
        self.problem = problem
        equal = int((SIZE / len(problem.fields)) ** (1 / len(problem.domain)) + 1e-9)
        self.ranks = dict(ranks or dict.fromkeys(problem.domain, max(equal, LADDER[0])))
        with jax.enable_x64(True):
            model: Any = build(
                problem,
                key=jax.random.key(0),
                decoder="tucker",
                rank=self.ranks,
                exact="all",
                trunk="classical",
                sensors=2,
                branch_width=1,
                branch_depth=1,
            )
            inputs = problem.sample(jax.random.key(1), functions)
            count = functions if problem.inputs else 1
            nodes, terms = quadrature_nodes(model), problem.terms(model.exact)
            start = jnp.zeros((count, *model.coefficient_shape()))
            solutions, _, _ = gauss_newton(model, inputs, start, {}, nodes, steps, 1 << 29)
            collocation = make_collocation(model, nodes)
            # One row of points at a time is slow, all of them are too many: as `gauss_newton` does by default.
            first, *rest = collocation.where.shape
            rows = max(1, min(first, (1 << 25) // (model.size * math.prod(rest))))
            weights = jnp.ones(len(terms))
            self.operators = np.asarray(
                eqx.filter_jit(normal_equations)(model, inputs, collocation, weights, jnp.asarray(solutions), rows)[0]
            )
            self.coefficients = solutions.reshape(count, -1)
            symbols = [Symbol("field", field) for field in problem.fields]
            values = evaluate(FixedCoefficients(model, jnp.asarray(solutions)), inputs, collocation.where, symbols)
            squares = sum(np.asarray(values[s]) ** 2 for s in symbols)
            for (_, axis), count_along in reversed(list(zip(problem.domain.axes, dict(nodes).values(), strict=True))):
                squares = squares @ quadrature(axis, count_along)[1]
            self.norms = np.sqrt(np.broadcast_to(squares, (count,)))
        if not all(np.all(np.isfinite(array)) for array in (self.operators, self.coefficients, self.norms)):
            raise ValueError(
                f"no ranks could be chosen for {type(problem).__name__}, because Gauss-Newton did not solve it for "
                "sampled inputs; give numbers: model.rank, and train.sampling.points of about one and a half times as "
                "many"
            )
        self.trunks: tuple[BasisTrunk, ...] = model.trunks

    def __call__(self, ranks: Mapping[str, int]) -> Floor:
        """The floor of smaller ranks."""
        inside = self._embedding(ranks)
        errors: list[float] = []
        for operator, c, norm in zip(self.operators, self.coefficients, self.norms, strict=True):
            seen = operator @ inside
            matrix = inside.T @ seen
            # Scaled to a unit diagonal: derivatives of high functions are larger by orders of magnitude.
            scale = 1 / np.sqrt(np.diagonal(matrix))
            matrix = scale[:, None] * matrix * scale + 1e-13 * np.eye(len(scale))
            smaller = scale * scipy.linalg.solve(matrix, scale * (seen.T @ c), assume_a="pos")
            errors.append(float(np.linalg.norm(c - inside @ smaller) / norm))
        return Floor(dict(ranks), float(np.mean(errors)))

    def choose(self, tolerance: float) -> Floor:
        """Ranks whose floor is below `tolerance`, grown where growing helps most; if none is, the largest that were
        tried."""
        best = self({name: min(LADDER[0], most) for name, most in self.ranks.items()})
        while best.error > tolerance:
            tried = [self(dict(best.ranks) | grown) for grown in _grown(best.ranks, self.ranks)]
            if not tried:
                return best
            best = min(tried, key=lambda floor: floor.error)
        return best

    def _embedding(self, ranks: Mapping[str, int]) -> np.ndarray:
        """The smaller basis in terms of the generous one, `[generous, smaller]`, fields in blocks."""
        blocks = []
        for field in range(len(self.problem.fields)):
            factors = []
            for (name, axis), trunk in zip(self.problem.domain.axes, self.trunks, strict=True):
                large: Any = trunk.bases[field]
                small = Orthonormal(large.family, axis, ranks[name], large.traces)
                points, weights = quadrature(axis, 2 * large.size + 20)
                factors.append(large.table(points)[0].T @ (weights[:, None] * small.table(points)[0]))
            blocks.append(reduce(np.kron, factors))
        return np.asarray(scipy.linalg.block_diag(*blocks))


def choose_ranks(problem: Problem, tolerance: float = 2e-3) -> Floor:
    """Ranks for a problem, and their floor."""
    return Floors(problem).choose(tolerance)


def resolve_auto(problem: Problem, recipe: Recipe) -> tuple[Recipe, Floor | None]:
    """A recipe with numbers where it says "auto", and the floor of its ranks if these were chosen.

    The points along an axis are one and a half times its rank: enough for the products of two basis functions. An axis
    along which the model is invariant gets cosines and sines in pairs.
    """
    model, floor = recipe.model, None
    if model.invariant == "auto":
        recipe = recipe.changed({"model.invariant": invariant_axis(problem)})
    if model.rank == "auto":
        if model.kind != "seponet" or model.decoder != "tucker" or model.exact != "all" or model.trunk != "classical":
            raise ValueError(
                'model.rank = "auto" is for what its floors are calculated for: kind = "seponet", decoder = "tucker", '
                'exact = "all" and trunk = "classical"'
            )
        floor = choose_ranks(problem)
        paired = recipe.model.invariant
        ranks = {name: rank + (name == paired and rank % 2 == 0) for name, rank in floor.ranks.items()}
        recipe = recipe.changed({"model.rank": ranks})
    if recipe.train.sampling.points == "auto":
        rank = recipe.model.rank
        ranks = rank if isinstance(rank, Mapping) else dict.fromkeys(problem.domain, rank)
        recipe = recipe.changed({"train.sampling.points": {name: -(-3 * int(r) // 2) for name, r in ranks.items()}})
    return recipe, floor


def _grown(ranks: Mapping[str, int], most: Mapping[str, int]) -> list[dict[str, int]]:
    """Each axis a rung higher, and all of them: errors of two axes can hide each other. A quarter of the generous basis
    is kept in reserve, because the floor of a basis against itself is zero."""
    higher = {
        name: next((r for r in LADDER if r > rank and r <= max(0.75 * most[name], LADDER[0])), None)
        for name, rank in ranks.items()
    }
    single = [{name: r} for name, r in higher.items() if r is not None]
    return single if len(single) < 2 else [*single, {name: r for name, r in higher.items() if r is not None}]
