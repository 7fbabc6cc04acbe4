r"""Conditioning: the average residual operator of a problem on fixed basis functions, and whitening by it.

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
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .calculus import Known, combine, contract_atom, fuse_term, known_parts
from .conditions import Term
from .features import Features, places_of, request_of
from .fusion import Fused
from .locations import Evaluator, Where
from .loss import Collocation
from .nn.fixed import Fixed
from .nn.linear import matmul
from .nn.model import OperatorNetwork
from .nn.whitening import Whitening
from .sweep import sum_over_rows

MEMORY = 1 << 28


def gram(
    model: OperatorNetwork,
    inputs: Mapping[str, Evaluator],
    collocation: Collocation,
    weights: Float[Array, "terms functions"],
    *,
    diagonal: bool = False,
    memory: int = MEMORY,
) -> Float[Array, "size *_"]:
    """E_u[J^T J] of the loss `sum weights * mean squares` (soft terms included), or its diagonal, summed over slabs of
    rows that take `memory` bytes, about."""
    terms = model.problem.terms(model.exact)
    boundary = collocation.where if collocation.boundary is None else collocation.boundary
    features = model.features(collocation.where, boundary, request_of(terms))
    lifts = model.lifts(inputs)
    identity = jnp.eye(model.size).reshape(model.size, *model.coefficient_shape())
    total = jnp.zeros(model.size if diagonal else (model.size, model.size))

    def slab(term: Term, row: Array, local: Features, where: Where, volume: Array) -> Array:
        places = places_of(term.face, where)
        shape = (row.shape[0], *local.shape)
        fused = fuse_term(term, shape, places, inputs, identity.dtype)
        slopes = _slopes(term, fused, known_parts(term, fused, places, inputs, lifts), shape)
        fields = model.problem.fields
        basis = [contract_atom(atom, fields, identity, local).reshape(model.size, -1) for atom in fused.atoms]
        made = jnp.zeros_like(total)
        for phi, slope in zip(basis, slopes, strict=True):
            for psi, other in zip(basis, slopes, strict=True):
                coupling = jnp.sum(row.reshape(-1, *(1,) * len(local.shape)) * slope * other, axis=0)
                weighted = phi * (volume * coupling).reshape(1, -1)
                made = made + (jnp.sum(weighted * psi, axis=1) if diagonal else matmul(weighted, psi.T))
        return made

    for row, term in zip(weights, terms, strict=True):
        local = features[term.face]
        where = collocation.where if term.face is None else boundary
        volume = collocation.volume(term.face, local.shape)
        atoms = len(term.expression.fields) + 1
        line = identity.itemsize * atoms * (model.size + row.shape[0]) * math.prod(local.shape[1:])
        rows = max(1, memory // line)
        total = total + sum_over_rows(partial(slab, term, row), local, where, volume, rows)
    return total


def _slopes(term: Term, fused: Fused, known: Known, shape: tuple[int, ...]) -> list[Array]:
    """db/da at the lift for every atom a: `[functions, *shape]` each."""
    base = [jnp.zeros(shape) if lift is None else jnp.broadcast_to(lift, shape) for lift in known.lifted]

    def body(*atoms: Array) -> Array:
        return jnp.broadcast_to(combine(term, fused, known, atoms), shape)

    def slope(i: int) -> Array:
        tangents = [jnp.ones(shape) if i == j else jnp.zeros(shape) for j in range(len(base))]
        return jax.jvp(body, tuple(base), tuple(tangents))[1]

    return [slope(i) for i in range(len(base))]


def whiten(
    model: OperatorNetwork,
    inputs: Mapping[str, Evaluator],
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
    found = eqx.filter_jit(gram)(model, inputs, collocation, weights, diagonal=kind == "diagonal")
    matrix = np.asarray(found, np.float64)
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
