r"""Residual operators on fixed basis functions, averaged over inputs.

With the residual r(c) of the coefficients c and J = dr/dc at c = 0 (the lift alone), the loss near the lift is
c^T E_u[J^T J] c plus lower orders. A branch that outputs z with c = z W, W W^T = E_u[J^T J]^{-1}, sees all directions
alike.

J comes from automatic differentiation of the *elementwise* bodies: if a body b depends on the network through the atoms
a = Phi_a c + lift_a, then J = sum_a D_a Phi_a with D_a = db/da, one number per function and point. So

$$E_u[J^T J] = \sum_{ab} \Phi_a^T\, \mathrm{diag}(w\, E_u[D_a D_b])\, \Phi_b,$$

and only averages over functions of numbers at points are needed, never a Jacobian for each function.
"""

import math
from collections.abc import Mapping
from functools import partial

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..calculus.assembly import Assembly, Piece
from ..calculus.collocation import Collocation
from ..calculus.slabs import sum_over_rows
from ..locations import Evaluable
from ..nn.linear import matmul
from ..nn.model import OperatorNetwork

MEMORY = 1 << 28


def gram(
    model: OperatorNetwork,
    inputs: Mapping[str, Evaluable],
    collocation: Collocation,
    weights: Float[Array, "terms functions"],
    *,
    diagonal: bool = False,
    memory: int = MEMORY,
) -> Float[Array, "size *_"]:
    """E_u[J^T J] of the loss `sum weights * mean squares` (soft terms included) at the lift, or its diagonal.

    It is summed over slabs of rows that take `memory` bytes, about.
    """
    functions, shape = weights.shape[1], model.coefficient_shape()
    total = jnp.zeros(model.size if diagonal else (model.size, model.size))
    for row, piece in zip(weights, Assembly(model, inputs, collocation, functions).pieces, strict=True):
        atoms = len(piece.term.expression.fields) + 1
        line = total.itemsize * atoms * (model.size + functions) * math.prod(piece.shape[1:])
        slab = partial(_average, weights=row, coefficient_shape=shape, diagonal=diagonal)
        total = total + sum_over_rows(slab, piece, max(1, memory // line))
    return total


def _average(
    piece: Piece, weights: Float[Array, " functions"], coefficient_shape: tuple[int, ...], diagonal: bool
) -> Float[Array, "size *_"]:
    """The sum of weights * J^T J over functions: sum_ab Phi_a^T diag(volume sum_u[weights D_a D_b]) Phi_b."""
    _, slopes = piece.linearise(None)
    volume, by_function = piece.volume(), weights.reshape(-1, *(1,) * len(piece.shape))
    basis = piece.basis_rows(coefficient_shape)
    size = math.prod(coefficient_shape)
    total = jnp.zeros(size if diagonal else (size, size))
    for phi, slope in zip(basis, slopes, strict=True):
        for psi, other in zip(basis, slopes, strict=True):
            weighted = phi * (volume * jnp.sum(by_function * slope * other, axis=0)).reshape(1, -1)
            total = total + (jnp.sum(weighted * psi, axis=1) if diagonal else matmul(weighted, psi.T))
    return total
