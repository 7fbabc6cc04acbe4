"""Whitening: the branch's outputs are scaled so that the loss sees every direction alike."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._program import OwnProgram
from ..bases.quadrature import quadrature
from ..calculus.collocation import Collocation
from ..discretise.tested import jacobian_squares
from ..locations import Evaluable
from ..losses.linearised import gram
from ..losses.spectral import SpectralResidual
from ..losses.tested import TestedResidual, discretisation_of, nodes_of
from ..nn.coefficient_maps import ModalScaling, Whitening
from ..nn.fixed import Fixed
from ..nn.model import OperatorNetwork
from ..nn.seponet import SepONet
from .config import RolloutConfig, TargetsConfig, TrainConfig
from .step import TrainStep

SAMPLED = 32
"""Functions over which the Jacobians of tested residuals are averaged: each is a matrix of its own."""


def whiten(
    model: OperatorNetwork,
    inputs: Mapping[str, Evaluable],
    collocation: Collocation,
    weights: Float[Array, "terms functions"],
    *,
    kind: Literal["diagonal", "full"] = "full",
    amplitude: float = 1.0,
    ridge: float = 1e-6,
) -> OperatorNetwork:
    """The model with a `Whitening` between its branch and its coefficients.

    **Arguments:**

    - `inputs`: a sample of a few hundred functions, over which the operator is averaged.
    - `kind`: "diagonal" scales each coefficient, "full" decorrelates them as well.
    - `amplitude`: of the coefficients for outputs of size one; a small one gives a calm start.
    - `ridge`: added to the correlations of a full whitening, relative to one.
    """
    if kind not in ("diagonal", "full"):
        raise ValueError(f'whitening is "diagonal" or "full"; got {kind!r}')
    average = eqx.filter_jit(gram)(model, inputs, collocation, weights, diagonal=kind == "diagonal")
    return _scaled(model, np.asarray(average, np.float64), kind, amplitude, ridge)


def whiten_tested(
    model: OperatorNetwork,
    inputs: Mapping[str, Evaluable],
    collocation: Collocation,
    weights: Float[Array, "terms functions"],
    *,
    kind: Literal["diagonal", "full"] = "full",
    amplitude: float = 1.0,
    ridge: float = 1e-6,
) -> OperatorNetwork:
    """`whiten` for tested residuals, over `SAMPLED` of the inputs; arguments as there."""
    few = min(SAMPLED, weights.shape[1])
    squares = jacobian_squares(
        discretisation_of(model),
        nodes_of(model, collocation),
        {name: functions[:few] for name, functions in inputs.items()},  # pyright: ignore[reportIndexIssue]
        weights[:, :few] * (weights.shape[1] / few),
        full=kind == "full",
    )
    return _scaled(model, np.asarray(squares, np.float64), kind, amplitude, ridge)


def _scaled(
    model: OperatorNetwork, matrix: Float[np.ndarray, "size *_"], kind: str, amplitude: float, ridge: float
) -> OperatorNetwork:
    diagonal = matrix if kind == "diagonal" else np.diagonal(matrix)
    if not np.all(diagonal > 0):
        dead = int(np.argmin(diagonal))
        raise ValueError(
            f"coefficient {dead} does not change any residual, so whitening can't scale it; use a smaller rank"
        )
    scale = 1 / np.sqrt(diagonal)
    if kind == "full":
        correlation = scale[:, None] * matrix * scale[None] + ridge * np.eye(len(scale))
        # c = z L^{-1} with A = L L^T and L = diag(1/scale) chol(correlation).
        weight = np.linalg.solve(np.linalg.cholesky(correlation), np.diag(scale))
    else:
        weight = scale
    whitening = Whitening(Fixed(jnp.asarray(weight)), amplitude)
    return eqx.tree_at(lambda m: m.whitening, model, whitening, is_leaf=lambda leaf: leaf is None)


def modal_weights(model: SepONet) -> Float[np.ndarray, "components *half_grid"]:
    """The inverse of the effect that each Fourier mode of each component of the core has on the residual.

    The effect is estimated by the highest derivatives along the axes that are not periodic: with the time derivative
    dominating, c = z / (gain of the potentials |d/dt of the basis function|) gives every component of z about the same.

    **Returns:** on the coefficients of a real FFT of the core, which has one component for each potential and each
    product of basis functions of the other axes; zero for modes that the residual does not see.
    """
    torus = model.fourier_grid()
    domain, potentials = model.problem.domain, model.potentials
    scale = np.ones((1, 1))
    for name, trunk in zip(domain.names, model.trunks, strict=True):
        if name not in torus.domain:
            axis, m = domain.axis(name), model.problem.highest_order(name)
            points, weights = quadrature(axis, 64)
            if trunk.classical_bases is None:
                raise ValueError(f"modal weights need fixed basis functions; the trunk along {name} is learned")
            norms = np.sqrt(weights @ trunk.classical_bases[0].table(points, m)[m] ** 2 / axis.length)
            scale = (scale[:, :, None] / norms).reshape(1, -1)
    gain = np.ones((1,) * len(torus.sizes)) if potentials is None else potentials.gain(torus.wavenumbers())
    gain = np.broadcast_to(gain, (*torus.sizes[:-1], torus.sizes[-1] // 2 + 1))
    count = model.coefficient_shape()[0]
    rows = np.repeat(scale, count, axis=0).reshape(-1, *(1,) * gain.ndim)
    inverse = np.where(gain > 0, 1 / np.where(gain > 0, gain, 1), 0)
    highest = math.prod(  # the sawtooth of an even number of nodes has no derivative
        (np.abs(np.rint(k * axis.length / (2 * np.pi))) <= (n - 1) // 2)
        for k, n, (_, axis) in zip(torus.wavenumbers().values(), torus.sizes, torus.domain.axes, strict=True)
    )
    return rows * (inverse * highest)[None]


def scale_modes(
    model: Any,
    galerkin: SpectralResidual,
    inputs: Mapping[str, Evaluable],
    collocation: Collocation,
    weights: Float[Array, " terms"],
    amplitude: float,
) -> Any:
    """The model with a `ModalScaling` between its branch and its coefficients: outputs of size 1 / `amplitude` can
    cancel what the lift leaves of the equations.

    **Arguments:**

    - `inputs`, `collocation`, `weights`: a sample of functions, and the loss over which its size is measured.
    """
    functions = len(next(iter(inputs.values())))  # pyright: ignore[reportArgumentType]
    left = OwnProgram(galerkin.table)(model, inputs, collocation, None, functions)
    size = float(jnp.sqrt(jnp.mean(jnp.sum(weights[:, None] * left, axis=0))))
    scaling = ModalScaling(Fixed(jnp.asarray(amplitude * size * modal_weights(model))), model.fourier_grid().sizes)
    return eqx.tree_at(lambda m: m.whitening, model, scaling, is_leaf=lambda leaf: leaf is None)


def whitened(model: OperatorNetwork, config: TrainConfig, key: PRNGKeyArray) -> OperatorNetwork:
    """Whitening by the average over a sample of functions, with the weights of the loss."""
    if not model.has_fixed_basis:
        raise ValueError(
            f"train.whitening = {config.whitening!r} scales the coefficients of fixed basis functions, and the trunks "
            'of this model are learned; set model.trunk = "classical" or train.whitening = "none"'
        )
    count = 16 if config.whitening == "modal" else 300
    stepper = TrainStep(
        model, dataclasses.replace(config, functions=count, rollout=RolloutConfig(), targets=TargetsConfig()), 1, key
    )
    batch = OwnProgram(stepper.batch)(stepper.start())
    if isinstance(stepper.galerkin, SpectralResidual) and config.whitening == "modal":
        return scale_modes(
            model, stepper.galerkin, batch.inputs, batch.collocation, stepper.term_weights, config.amplitude
        )
    weights = stepper.term_weights[:, None] * batch.scale[None] / batch.scale.shape[0]
    kind: Any = config.whitening
    if isinstance(stepper.galerkin, TestedResidual):
        return whiten_tested(model, batch.inputs, batch.collocation, weights, kind=kind, amplitude=config.amplitude)
    return whiten(model, batch.inputs, batch.collocation, weights, kind=kind, amplitude=config.amplitude)
