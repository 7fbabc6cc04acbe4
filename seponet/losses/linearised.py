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
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..calculus.basis_values import BasisValues, requested_derivatives, weighted_locations
from ..calculus.collocation import Collocation
from ..calculus.evaluate import Known, combine, contract_atom, fuse_term, known_parts
from ..calculus.linear_parts import LinearParts
from ..calculus.slabs import sum_over_rows
from ..equations.terms import Term
from ..locations import Evaluable, Location
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
    """E_u[J^T J] of the loss `sum weights * mean squares` (soft terms included), or its diagonal, summed over slabs of
    rows that take `memory` bytes, about."""
    terms = model.problem.terms(model.exact)
    boundary = collocation.where if collocation.boundary is None else collocation.boundary
    features = model.basis_values(collocation.where, boundary, requested_derivatives(terms))
    lifts = model.lifts(inputs)
    identity = jnp.eye(model.size).reshape(model.size, *model.coefficient_shape())
    total = jnp.zeros(model.size if diagonal else (model.size, model.size))

    def slab(term: Term, row: Array, local: BasisValues, where: Location, volume: Array) -> Array:
        places = weighted_locations(term.face, where)
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


def _slopes(term: Term, fused: LinearParts, known: Known, shape: tuple[int, ...]) -> list[Array]:
    """db/da at the lift for every atom a: `[functions, *shape]` each."""
    base = [jnp.zeros(shape) if lift is None else jnp.broadcast_to(lift, shape) for lift in known.lifted]

    def body(*atoms: Array) -> Array:
        return jnp.broadcast_to(combine(term, fused, known, atoms), shape)

    def slope(i: int) -> Array:
        tangents = [jnp.ones(shape) if i == j else jnp.zeros(shape) for j in range(len(base))]
        return jax.jvp(body, tuple(base), tuple(tangents))[1]

    return [slope(i) for i in range(len(base))]


def normal_equations(
    model: OperatorNetwork, inputs: Any, collocation: Collocation, weights: Array, c: Array, rows: int
) -> tuple[Float[Array, "functions k k"], Float[Array, "functions k"]]:
    """J^T J and J^T r of every function, summed over terms and slabs of rows."""
    terms = model.problem.terms(model.exact)
    where, lifts = collocation.where, model.lifts(inputs)
    features = model.basis_values(where, where, requested_derivatives(terms))
    sums = jnp.zeros((len(c), model.size, model.size)), jnp.zeros((len(c), model.size))
    for weight, term in zip(weights, terms, strict=True):
        local = features[term.face]
        root = jnp.sqrt(weight * collocation.volume(term.face, local.shape))
        slab = partial(_slab, model, inputs, lifts, term, c)
        sums = jax.tree.map(jnp.add, sums, sum_over_rows(slab, local, where, root, rows))
    return sums


def _slab(
    model: OperatorNetwork,
    inputs: Any,
    lifts: Any,
    term: Term,
    c: Array,
    local: BasisValues,
    where: Location,
    root: Float[Array, "..."],
) -> tuple[Float[Array, "functions k k"], Float[Array, "functions k"]]:
    """J^T J and J^T r of one term on some rows, `root` being the square roots of the quadrature weights."""
    places = weighted_locations(term.face, where)
    fused = fuse_term(term, (len(c), *local.shape), places, inputs, c.dtype)
    known = known_parts(term, fused, places, inputs, lifts)
    residual, slopes = _linearise(term, fused, known, model.problem.fields, c, local)
    basis = _basis(fused, model, local)
    scale = root.reshape(-1)

    def one(pair: tuple[Array, list[Array]]) -> tuple[Array, Array]:
        r, d = pair
        jacobian = reduce(jnp.add, [(s * scale)[None] * phi for s, phi in zip(d, basis, strict=True)])
        return matmul(jacobian, jacobian.T), matmul(jacobian, (scale * r)[:, None])[:, 0]

    return jax.lax.map(one, (residual, slopes))


def _basis(fused: LinearParts, model: OperatorNetwork, local: BasisValues) -> list[Float[Array, "k points"]]:
    """The derivatives of all basis functions in every atom."""
    identity = jnp.eye(model.size).reshape(model.size, *model.coefficient_shape())
    return [contract_atom(atom, model.problem.fields, identity, local).reshape(model.size, -1) for atom in fused.atoms]


def _linearise(
    term: Term, fused: LinearParts, known: Known, fields: Sequence[str], c: Array, local: BasisValues
) -> tuple[Float[Array, "functions points"], list[Float[Array, "functions points"]]]:
    """The residual b and db/da for every atom a, at the current coefficients."""
    shape = (len(c), *local.shape)
    atoms = [contract_atom(atom, fields, c, local) for atom in fused.atoms]
    atoms = [
        v if lift is None else v + jnp.broadcast_to(lift, shape) for v, lift in zip(atoms, known.lifted, strict=True)
    ]

    def body(*values: Array) -> Array:
        return jnp.broadcast_to(combine(term, fused, known, values), shape)

    residual, push = jax.linearize(body, *atoms)
    ones = [[jnp.full(shape, float(i == j)) for j in range(len(atoms))] for i in range(len(atoms))]
    return residual.reshape(len(c), -1), [push(*tangents).reshape(len(c), -1) for tangents in ones]
