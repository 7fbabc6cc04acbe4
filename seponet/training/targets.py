"""From a model to a step that fits it to solved functions: what solves them, the first of them, their components."""

import logging
import math
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .._precision import double_precision
from .._program import OwnProgram
from .._text import percent
from ..discretise.correction import Corrector, make_corrector
from ..discretise.metric import Metric
from ..losses.tested import discretisation_of, nodes_of
from ..nn.build import with_components
from ..nn.coefficient_maps import PrincipalComponents
from ..nn.fixed import Fixed
from ..nn.model import OperatorNetwork
from .linear_part import fit_linear
from .principal import principal_components
from .recipe import Recipe
from .sampling import Sampler
from .solved_step import SolvedStep, solve_batch
from .target_pool import Solved

logger = logging.getLogger(__name__)

ROUNDING = 3e-6
"""Changes of solutions that float32 can tell from none."""

SHAPES = 64
"""Sampled shapes of a mapped domain over which the norm of solutions is averaged."""

COST_FIRST, COST_LINEAR = 3_000_000, 24_000_000
"""The most functions times coefficients that are solved before the first step for the linear part's sake; and those of
a linear equation, of which that part is all, and whose functions take a product each."""


def make_solved_step(
    model: OperatorNetwork, recipe: Recipe, slab: int, for_model: PRNGKeyArray, key: PRNGKeyArray
) -> SolvedStep:
    """The step of a model with an untrained branch. `discretise.correction.NotSolved` if few functions can be solved.

    **Arguments:**

    - `for_model`, `key`: the seeds of the branch, which may be made anew, and of functions.
    """
    config = recipe.train
    targets, problem = config.targets, model.problem
    sampler = Sampler.of(problem.domain, config.sampling.points, config.sampling.method)
    corrector = make_corrector(
        problem,
        discretisation_of(model),
        nodes_of(model, sampler.draw(key, sampler.density())),
        jax.random.fold_in(key, 1),
        steps=targets.newton,
        iterations=targets.iterations,
        # Newton's method with steps that are solved to a tenth leaves about a tenth of its last one.
        tolerance=max(min(targets.tolerance, config.tolerance or 1.0), ROUNDING),
    )
    # A linear part needs more functions than it has numbers for each component.
    features, cost = _count_features(model), COST_LINEAR if corrector.linear else COST_FIRST
    affordable = min(cost // model.size, targets.pool // 2)
    wanted = max(targets.first, min(2 * features, affordable)) if features else min(targets.first, affordable)
    count = -(-wanted // config.functions) if targets.first and problem.inputs else 0
    if not count:
        return SolvedStep(model, config, slab, key, corrector)
    # Not the keys of the steps, which are folded by numbers that are not negative.
    keys = jax.random.split(jax.random.fold_in(key, 3), count)
    logger.info("solving the first %d functions", count * config.functions)
    solve = OwnProgram(lambda key, corrector, lift: _solve_first(model, corrector, key, lift))
    # As an argument: XLA would multiply a constant of zeros with all tables while it compiles.
    lift = jnp.zeros((config.functions, *model.coefficient_shape()))
    batches: list[Solved] = []
    seconds = 0.0
    for batch_key in keys:
        began = time.perf_counter()
        batches.append(jax.block_until_ready(solve(batch_key, corrector, lift)))
        seconds = time.perf_counter() - began
    joined: Solved = jax.tree.map(lambda *parts: jnp.concatenate(parts), *batches)
    if not features:
        return SolvedStep(_adapted(model, joined), config, slab, key, corrector, tuple(batches), seconds)
    tolerance = config.tolerance or targets.tolerance
    weights = np.asarray(joined.weights, np.float64)
    components = solution_components(model, corrector, joined, weights, tolerance / 20, jax.random.fold_in(key, 4))
    fitted, linear = _with_outputs(model, recipe, components, joined, weights, for_model)
    if fitted is not model:
        logger.info(
            "the branch gives %d principal components of %d coefficients; what is linear in the input is right to %s",
            len(components[0]),
            model.size,
            percent(linear),
        )
        batches = [
            eqx.tree_at(lambda b: b.targets, batch, fitted.whitening.compress(batch.targets)) for batch in batches
        ]
    return SolvedStep(fitted, config, slab, key, corrector, tuple(batches), seconds if count > 1 else None)


def _adapted(model: Any, solved: Solved) -> Any:
    """The model whose branch, of another kind than a network behind encoders, has the scales of solved functions."""
    good = np.asarray(solved.weights) > 0
    coefficients = np.asarray(solved.targets, np.float64)[good].reshape(-1, *model.coefficient_shape())
    basis = [of_field[0] for of_field in discretisation_of(model).bases]
    return eqx.tree_at(lambda m: m.branch, model, model.branch.adapted(basis, coefficients))


def _solve_first(model: Any, corrector: Corrector, key: PRNGKeyArray, lift: Array) -> Solved:
    """A batch solved from the lift, whose coefficients are zeros."""
    inputs = model.problem.sample(key, len(lift))
    return solve_batch(model, corrector, inputs, model.encode(inputs), lift)[0]


def _count_features(model: OperatorNetwork) -> int:
    """How many numbers the network is a function of; 0 if some of them are trained."""
    inputs = eqx.filter_eval_shape(lambda: model.problem.sample(jax.random.key(0), 1))
    features = eqx.filter_eval_shape(lambda f: model.branch.features(model.prepare(model.encode(f))[0]), inputs)
    return 0 if features is None else features.shape[1]


def solution_components(
    model: OperatorNetwork, corrector: Corrector, solved: Solved, weights: np.ndarray, left: float, key: PRNGKeyArray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Principal components of solutions, and their duals where the norm of solutions is not that of coefficients."""
    rows = np.asarray(solved.targets, np.float64)
    if model.problem.chart is None:
        return principal_components(rows, weights, left), None
    alike = () if model.translation is None else (model.problem.domain.names[model.translation.place],)
    with double_precision():
        inputs = jax.jit(lambda key: model.problem.sample(key, SHAPES))(key)
        metric = Metric.of(corrector.discretisation, inputs, corrector.nodes, alike)
    assert metric is not None
    flat = principal_components(metric.flatten(rows), weights, left)
    return metric.restore(flat), metric.dual(flat)


def _with_outputs(
    model: OperatorNetwork,
    recipe: Recipe,
    components: tuple[np.ndarray, np.ndarray | None],
    solved: Solved,
    weights: np.ndarray,
    key: PRNGKeyArray,
) -> tuple[Any, float]:
    """The model with components as the outputs of its branch, which corrects an affine map; and the error of that."""
    vectors, duals = components
    targets = np.asarray(solved.targets, np.float64) @ (vectors if duals is None else duals).T
    features = model.branch.features(solved.prepared)
    if features is None:
        return model, math.inf
    linear = fit_linear(np.asarray(features, np.float64), targets, weights)
    # Directions in which nothing is left are as small as the smallest that matters.
    scales = recipe.train.targets.amplitude * np.maximum(linear.left, 1e-3 * np.max(linear.left))
    outputs = PrincipalComponents(
        Fixed(jnp.asarray(vectors, float)),
        Fixed(jnp.asarray(scales, float)),
        None if duals is None else Fixed(jnp.asarray(duals, float)),
    )
    affine = (linear.matrix / scales, linear.offset / scales)
    return with_components(model, recipe.model, outputs, affine, key), linear.error
