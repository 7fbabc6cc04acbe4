r"""Tested residuals $G(c)_k = \langle \psi_k, R(c) \rangle$ on a quadrature grid, and their Jacobians.

Test functions are products, so the residual on the grid is contracted axis by axis. A Jacobian comes from the
elementwise bodies: with the slopes $D_{f\alpha} = \partial R / \partial (\partial^\alpha s_f)$, one number for each
point,

$$\frac{\partial G_{k'}}{\partial c_{fk}} = \sum_\alpha \sum_p D_{f\alpha}(p)
  \prod_n w_n\, \psi_{n k'_n}(p_n)\, \phi^{(\alpha_n)}_{n k_n}(p_n),$$

which is contracted axis by axis too: a matrix for all coefficients costs little more than its own size.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._program import compiled_briefly
from ..bases.quadrature import quadrature
from ..calculus.assembly import Assembly, Piece
from ..calculus.collocation import Nodes, make_collocation
from ..calculus.decoders import contract_axis
from ..calculus.evaluate import volume_element
from ..calculus.model import Model
from ..derivatives import MultiIndex, order_along
from ..domain import Domain
from ..locations import Evaluable
from .discretisation import Discretisation
from .test_functions import TermTests, make_tests

Slopes = dict[tuple[int, MultiIndex], Float[Array, "_ *_"]]
"""dR/d(derivative) of one term, for each field (by number) and derivative."""


class Along(NamedTuple):
    """An axis that is left out of a Jacobian: slopes are averaged along it.

    - `axis`: its number.
    - `weights`: of its nodes, their sum is one.
    - `order`: of the derivatives along it that are taken.
    """

    axis: int
    weights: Float[Array, " nodes"]
    order: int


class TestedResiduals:
    """The tested residuals of a discretisation for a batch of inputs, on a quadrature grid.

    **Arguments:**

    - `discretisation`, `nodes`: the trial functions, and the number of nodes along each axis.
    - `inputs`, `functions`: the inputs, derived ones included, and how many functions they are.
    - `model`: whose residuals are tested, with the same exact axes; by default the discretisation's own.
    """

    __test__ = False

    def __init__(
        self,
        discretisation: Discretisation,
        nodes: Nodes,
        inputs: Mapping[str, Evaluable],
        functions: int,
        model: Model | None = None,
    ) -> None:
        self.discretisation = discretisation
        self.tests = make_tests(discretisation)
        collocation = make_collocation(discretisation, nodes)
        self.pieces = Assembly(discretisation if model is None else model, inputs, collocation, functions).pieces
        rules = [
            quadrature(axis, n) for (_, axis), (_, n) in zip(discretisation.problem.domain.axes, nodes, strict=True)
        ]
        self.tables = [_weighted_tables(tests, rules) for tests in self.tests]
        self.element = volume_element(discretisation.problem, inputs, collocation.where)

    @property
    def rows(self) -> int:
        """The number of tested rows of one function."""
        return sum(math.prod(tests.shape) for tests in self.tests)

    def __call__(self, coefficients: Float[Array, "functions fields *_"]) -> Float[Array, "functions rows"]:
        """G(c), the rows of all terms one after the other."""
        return jnp.concatenate([self.of_term(i, coefficients) for i in range(len(self.pieces))], axis=1)

    def of_term(self, term: int, coefficients: Float[Array, "functions fields *_"] | None) -> Array:
        """The rows of one term, `[functions, rows]`; without coefficients those of the lift alone."""
        return self.project(term, self.weighed(term, self.pieces[term].residual(coefficients)))

    def weighed(self, term: int, values: Float[Array, "functions *points"]) -> Float[Array, "functions *points"]:
        """Values in the interior times the volume element of a mapped domain: integrals are over the domain, so that
        integration by parts is that of the equation."""
        interior = self.pieces[term].term.face is None
        return values if self.element is None or not interior else values * self.element

    def project(self, term: int, values: Float[Array, "functions *points"]) -> Float[Array, "functions rows"]:
        """The integrals of values on the grid times each test function of a term."""
        values = jnp.moveaxis(values, 0, -2)
        for axis, table in enumerate(self.tables[term]):
            values = contract_axis(values, table, axis)
        return jnp.moveaxis(values, -2, 0).reshape(values.shape[-2], -1)

    def linearise(
        self, coefficients: Float[Array, "functions fields *_"]
    ) -> tuple[Float[Array, "functions rows"], list[Slopes]]:
        """G(c), and the slopes of every term at c."""
        rows, slopes = [], []
        for i, piece in enumerate(self.pieces):
            residual, by_atom = piece.linearise(coefficients)
            rows.append(self.project(i, self.weighed(i, residual)))
            slopes.append(_by_derivative(piece, [self.weighed(i, slope) for slope in by_atom]))
        return jnp.concatenate(rows, axis=1), slopes

    def push(self, slopes: Sequence[Slopes], direction: Float[Array, "functions fields *_"]) -> Array:
        """The Jacobian times a direction, matrix-free: `[functions, rows]`."""
        rows = []
        for i, (piece, of_term) in enumerate(zip(self.pieces, slopes, strict=True)):
            assert piece.basis is not None
            total = sum(
                slope * piece.basis.contract(direction, field, [(1.0, alpha)])
                for (field, alpha), slope in of_term.items()
            )
            rows.append(self.project(i, jnp.broadcast_to(total, (direction.shape[0], *piece.shape))))
        return jnp.concatenate(rows, axis=1)

    def jacobian(
        self, slopes: Sequence[Slopes], diagonal: Sequence[int] = (), along: "Along | None" = None
    ) -> Float[Array, "functions blocks rows columns"]:
        """The matrices of the Jacobian, block by block.

        Along the axes `diagonal` only the coupling of a test function with the trial function of the same number is
        kept, so there is a block for each product of these functions. It couples everything along the other axes, in
        the order of `gather` (rows) and `scatter` (columns). The axis of `along`, if given, is left out.
        """
        lines = []
        fields, names = len(self.discretisation.problem.fields), self.discretisation.problem.domain.names
        for i, (piece, of_term) in enumerate(zip(self.pieces, slopes, strict=True)):
            columns = []
            for field in range(fields):
                parts = [
                    self._block(i, piece, field, alpha, slope, diagonal, along)
                    for (owner, alpha), slope in of_term.items()
                    if owner == field and (along is None or order_along(alpha, names[along.axis]) == along.order)
                ]
                functions = max((len(part) for part in parts), default=1)
                columns.append(sum(parts) if parts else self._empty(i, functions, diagonal, along))
            most = max(len(c) for c in columns)
            lines.append(jnp.concatenate([jnp.broadcast_to(c, (most, *c.shape[1:])) for c in columns], axis=-1))
        most = max(len(line) for line in lines)
        return jnp.concatenate([jnp.broadcast_to(line, (most, *line.shape[1:])) for line in lines], axis=-2)

    def gather(
        self, rows: Float[Array, "functions rows"], diagonal: Sequence[int]
    ) -> Float[Array, "functions blocks _"]:
        """Rows in the order of the blocks of `jacobian`."""
        parts, start = [], 0
        for tests in self.tests:
            size = math.prod(tests.shape)
            parts.append(_blockwise(rows[:, start : start + size].reshape(-1, *tests.shape), diagonal))
            start += size
        return jnp.concatenate(parts, axis=-1)

    def scatter(self, blocks: Float[Array, "functions blocks _"], diagonal: Sequence[int]) -> Array:
        """Coefficients `[functions, fields, *_]` from the order of the blocks of `jacobian`."""
        shape = self.discretisation.shape
        outer = [shape[n] for n in diagonal]
        inner = [r for n, r in enumerate(shape) if n not in diagonal]
        fields = len(self.discretisation.problem.fields)
        parts = blocks.reshape(blocks.shape[0], *outer, fields, *inner)
        parts = jnp.moveaxis(parts, 1 + len(outer), 1)
        order = [*diagonal, *(n for n in range(len(shape)) if n not in diagonal)]
        return jnp.transpose(parts, (0, 1, *(2 + order.index(n) for n in range(len(shape)))))

    def _block(
        self,
        term: int,
        piece: Piece,
        field: int,
        alpha: MultiIndex,
        slope: Array,
        diagonal: Sequence[int],
        along: "Along | None",
    ) -> Float[Array, "functions blocks rows columns"]:
        assert piece.basis is not None
        tables: Sequence[Array] = piece.basis.tables  # pyright: ignore[reportAttributeAccessIssue]
        values = jnp.broadcast_to(slope, (slope.shape[0], *piece.shape))
        for n, (name, table, test) in enumerate(
            zip(self.discretisation.problem.domain, tables, self.tables[term], strict=True)
        ):
            trial = table[order_along(alpha, name), field].T
            if along is not None and n == along.axis:
                pairs = along.weights[:, None, None, None]
            elif n in diagonal:
                pairs = (test * trial)[:, :, None, None]
            else:
                pairs = (test[:, :, None] * trial[:, None, :])[:, None]
            values = jnp.tensordot(values, pairs, ((1,), (0,)), precision="highest")
        # Now [functions, (block, row, column) of the first axis, of the second, ...].
        axes = range(1, values.ndim, 3)
        values = jnp.transpose(values, (0, *axes, *(a + 1 for a in axes), *(a + 2 for a in axes)))
        blocks, rows, columns = (math.prod(values.shape[1 + i * len(axes) : 1 + (i + 1) * len(axes)]) for i in range(3))
        return values.reshape(values.shape[0], blocks, rows, columns)

    def _empty(self, term: int, functions: int, diagonal: Sequence[int], along: "Along | None") -> Array:
        alone = {*diagonal, *(() if along is None else (along.axis,))}
        rows = [1 if n in alone else size for n, size in enumerate(self.tests[term].shape)]
        columns = [1 if n in alone else size for n, size in enumerate(self.discretisation.shape)]
        blocks = [self.discretisation.shape[n] for n in diagonal]
        return jnp.zeros((functions, math.prod(blocks), math.prod(rows), math.prod(columns)))


def _blockwise(values: Float[Array, "functions *sizes"], diagonal: Sequence[int]) -> Float[Array, "functions blocks _"]:
    others = [n for n in range(values.ndim - 1) if n not in diagonal]
    values = jnp.transpose(values, (0, *(n + 1 for n in diagonal), *(n + 1 for n in others)))
    return values.reshape(values.shape[0], math.prod(values.shape[1 : 1 + len(diagonal)]), -1)


def _weighted_tables(
    tests: TermTests, rules: Sequence[tuple[np.ndarray, np.ndarray]]
) -> list[Float[Array, "points size"]]:
    """For each axis the test functions at the nodes, times the weights."""
    with jax.ensure_compile_time_eval():
        return [
            jnp.ones((1, 1)) if basis is None else jnp.asarray(weights[:, None] * basis.table(points)[0])
            for basis, (points, weights) in zip(tests.bases, rules, strict=True)
        ]


def _by_derivative(piece: Piece, slopes: Sequence[Array]) -> Slopes:
    """The slopes in the atoms, spread over the derivatives that these combine."""
    total: Slopes = {}
    for atom, slope in zip(piece.parts.atoms, slopes, strict=True):
        for symbol, weight in atom:
            key = (piece.fields.index(symbol.name), symbol.alpha)
            total[key] = total[key] + weight * slope if key in total else weight * slope
    return total


def mean_slopes(slopes: Sequence[Slopes]) -> list[Slopes]:
    """Slopes averaged over functions: E_u of the Jacobian is the Jacobian of these."""
    return [{key: jnp.mean(slope, axis=0, keepdims=True) for key, slope in term.items()} for term in slopes]


def slope_variation(
    discretisation: Discretisation,
    nodes: Nodes,
    inputs: Mapping[str, Evaluable],
    functions: int,
    axis: int | None = None,
) -> Float[Array, ""]:
    """How much the slopes differ between functions, and between two sets of coefficients, relative to their size: zero
    for a linear equation whose coefficients are no inputs, and then all functions have one Jacobian. With the number of
    an axis, how much they differ along it instead of between functions."""
    shape = (functions, *discretisation.coefficient_shape())
    ramp = jnp.linspace(0.5, 1.5, math.prod(shape)).reshape(shape)
    return _slope_variation(discretisation, nodes, inputs, ramp, axis)


@compiled_briefly
def _slope_variation(
    discretisation: Discretisation, nodes: Nodes, inputs: Mapping[str, Evaluable], ramp: Array, axis: int | None
) -> Float[Array, ""]:
    # Coefficients are an argument: XLA would multiply constants with all tables while it compiles.
    tested = TestedResiduals(discretisation, nodes, inputs, len(ramp))
    variations = []
    for first, second in zip(tested.linearise(0.0 * ramp)[1], tested.linearise(ramp)[1], strict=True):
        for key, slope in first.items():
            mean = jnp.mean(slope, axis=0 if axis is None else 1 + axis, keepdims=True)
            apart = jnp.maximum(jnp.max(jnp.abs(slope - mean)), jnp.max(jnp.abs(second[key] - mean)))
            variations.append(apart / jnp.maximum(jnp.max(jnp.abs(mean)), 1e-300))
    return jnp.max(jnp.stack(variations))


@compiled_briefly
def averaged_jacobian(
    discretisation: Discretisation,
    nodes: Nodes,
    inputs: Mapping[str, Evaluable],
    coefficients: Float[Array, "functions fields *_"],
    diagonal: tuple[int, ...] = (),
) -> Float[Array, "blocks rows columns"]:
    """E_u of the Jacobian of the tested residuals at given coefficients, block by block (see `jacobian`)."""
    tested = TestedResiduals(discretisation, nodes, inputs, len(coefficients))
    _, slopes = tested.linearise(coefficients)
    return tested.jacobian(mean_slopes(slopes), diagonal)[0]


@compiled_briefly
def jacobian_squares(
    discretisation: Discretisation,
    nodes: Nodes,
    inputs: Mapping[str, Evaluable],
    weights: Float[Array, "terms functions"],
    *,
    full: bool = False,
) -> Float[Array, "size *_"]:
    """sum_u J^T diag(weights) J at the lift, or its diagonal, for weights of each term and function; relative to the
    volume, as the losses are."""
    functions = weights.shape[1]
    tested = TestedResiduals(discretisation, nodes, inputs, functions)
    zero = jnp.zeros((functions, *discretisation.coefficient_shape()))
    _, slopes = tested.linearise(zero)
    counts = np.array([math.prod(tests.shape) for tests in tested.tests])
    volumes = np.array([piece_volume(piece, discretisation.problem.domain) for piece in tested.pieces])
    by_row = jnp.repeat(weights / volumes[:, None], counts, axis=0, total_repeat_length=int(counts.sum())).T

    def one(pair: tuple[Array, list[Slopes]]) -> Array:
        # Function by function: the Jacobians of all of them would not fit.
        scale, of_function = pair
        matrix = tested.jacobian([{k: v[None] for k, v in term.items()} for term in of_function])[0, 0]
        weighted = scale[:, None] * matrix
        return jnp.matmul(weighted.T, matrix, precision="highest") if full else jnp.sum(weighted * matrix, axis=0)

    return jnp.sum(jax.lax.map(one, (by_row, slopes)), axis=0)


def piece_volume(piece: Piece, domain: Domain) -> float:
    """The volume of the interior, or the area of a face."""
    face = piece.term.face
    return math.prod(axis.length for name, axis in domain.axes if face is None or name != face.axis)
