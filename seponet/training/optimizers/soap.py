r"""SOAP: Adam in the eigenbasis of Shampoo's preconditioner (Vyas et al., arXiv:2409.11321).

For a weight matrix with gradient $G_t$, keep the covariances of its rows and columns, their eigenbases and Adam's
moments of the rotated gradient:

$$
\begin{aligned}
G'_t &= Q_L^T G_t Q_R, \\
M_t &= \beta_1 M_{t-1} + (1 - \beta_1) G'_t, \qquad V_t = \beta_2 V_{t-1} + (1 - \beta_2) G'_t \odot G'_t, \\
W_t &= W_{t-1} - \eta \, Q_L \, \frac{\hat M_t}{\sqrt{\hat V_t} + \epsilon} \, Q_R^T, \\
L_t &= \beta L_{t-1} + (1 - \beta) G_t G_t^T, \qquad R_t = \beta R_{t-1} + (1 - \beta) G_t^T G_t,
\end{aligned}
$$

and every few steps $Q_L \leftarrow \mathrm{qr}(L_t Q_L)$, $Q_R \leftarrow \mathrm{qr}(R_t Q_R)$: one power iteration.

The paper keeps $M$ unrotated and rotates it at every step; here it lives in the rotated space and is carried over when
the bases change, which is the same in exact arithmetic and saves two products a step.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree


class Side(NamedTuple):
    """One side of a weight matrix that is preconditioned: its covariance (L or R) and the basis (Q_L or Q_R)."""

    covariance: Float[Array, "n n"]
    basis: Float[Array, "n n"]


class Moments(NamedTuple):
    """The state of one parameter, seen as a matrix; a side that is None has the identity for its basis."""

    first: Float[Array, "m n"]
    second: Float[Array, "m n"]
    left: Side | None
    right: Side | None


class SoapState(NamedTuple):
    """**Arguments:**

    - `step`: the number of gradients seen.
    - `moments`: a tree like the parameters', with a `Moments` for each.
    """

    step: Int[Array, ""]
    moments: PyTree


def soap(
    learning_rate: optax.ScalarOrSchedule,
    b1: float = 0.95,
    b2: float = 0.95,
    shampoo_beta: float | None = None,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    frequency: int = 10,
    max_size: int = 256,
) -> optax.GradientTransformation:
    """The SOAP optimizer.

    Vectors and scalars get plain Adam. A parameter with more than two axes, such as a convolution kernel
    `[out, in, ...]`, is treated as the matrix `[out, rest]`. The first gradient only sets the bases of the
    preconditioned matrices, which start to move at the second: in the bases of a single gradient that gradient is
    diagonal, and Adam would blow the round-off elsewhere up to full steps.

    **Arguments:**

    - `learning_rate`: a number or an Optax schedule.
    - `b1`, `b2`: decay rates of the first and second moment.
    - `shampoo_beta`: decay rate of the covariances; `b2` if left out.
    - `eps`: added to the root of the second moment.
    - `weight_decay`: decoupled weight decay, as in AdamW.
    - `frequency`: steps between two refreshes of the bases.
    - `max_size`: a side of a matrix larger than this is not preconditioned, whatever the other side is. A refresh
      costs the cube of the side, so that a wide output layer would cost more than all others together.
    """
    steps = [scale_by_soap(b1, b2, shampoo_beta, eps, frequency, max_size)]
    if weight_decay:
        steps.append(optax.add_decayed_weights(weight_decay))
    return optax.chain(*steps, optax.scale_by_learning_rate(learning_rate))


def scale_by_soap(
    b1: float = 0.95,
    b2: float = 0.95,
    shampoo_beta: float | None = None,
    eps: float = 1e-8,
    frequency: int = 10,
    max_size: int = 256,
) -> optax.GradientTransformation:
    """SOAP's direction without learning rate and weight decay; for the arguments see `soap`."""
    beta = b2 if shampoo_beta is None else shampoo_beta
    for name, value in {"b1": b1, "b2": b2, "shampoo_beta": beta}.items():
        if not 0 <= value < 1:
            raise ValueError(f"`{name}` must be at least 0 and below 1; got {value}")
    if frequency < 1:
        raise ValueError(f"`frequency` counts the steps between two refreshes and must be at least 1; got {frequency}")

    def init(params: PyTree) -> SoapState:
        return SoapState(jnp.zeros((), jnp.int32), jax.tree.map(lambda p: _start(p, max_size), params))

    def update(updates: PyTree, state: Any, params: PyTree | None = None) -> tuple[PyTree, SoapState]:
        del params
        gradients, tree = jax.tree.flatten(updates)
        matrices = [_matrix(g) for g in gradients]
        moments: list[Moments] = tree.flatten_up_to(state.moments)
        due = jnp.where(state.step == 0, 2, jnp.where(state.step % frequency == 0, 1, 0))
        # Products that a GPU would round to TF32 would cost the bases their orthogonality.
        with jax.default_matmul_precision("highest"):
            moments = [_accumulate(g, m, b1, b2, beta) for g, m in zip(matrices, moments, strict=True)]
            directions = [_direction(m, state.step, b1, b2, eps) for m in moments]
            moments = jax.lax.switch(due, (_keep, _refresh, _initialise), moments)
        directions = [d.reshape(g.shape) for d, g in zip(directions, gradients, strict=True)]
        return tree.unflatten(directions), SoapState(state.step + 1, tree.unflatten(moments))

    return optax.GradientTransformation(init, update)


def _matrix(x: Array) -> Float[Array, "m n"]:
    return x.reshape(x.shape[0], -1) if x.ndim > 1 else x.reshape(1, -1)


def _start(parameter: Array, max_size: int) -> Moments:
    if not jnp.issubdtype(parameter.dtype, jnp.floating):
        raise ValueError(
            f"SOAP needs real floating-point parameters; got one of type {parameter.dtype}. "
            "Keep the others out of the tree, for instance with `eqx.partition`."
        )

    def side(n: int) -> Side | None:
        # A basis of zeros makes the first rotated gradient and its step vanish.
        return Side(*jnp.zeros((2, n, n), parameter.dtype)) if parameter.ndim > 1 and 1 < n <= max_size else None

    matrix = _matrix(parameter)
    m, n = matrix.shape
    # Two arrays, not one twice: a training step may donate its state, and a buffer can be donated only once.
    return Moments(jnp.zeros_like(matrix), jnp.zeros_like(matrix), side(m), side(n))


def _accumulate(g: Float[Array, "m n"], moments: Moments, b1: float, b2: float, beta: float) -> Moments:
    first, second, left, right = moments
    rotated = g
    if left is not None:
        rotated = left.basis.T @ rotated
        left = left._replace(covariance=beta * left.covariance + (1 - beta) * g @ g.T)
    if right is not None:
        rotated = rotated @ right.basis
        right = right._replace(covariance=beta * right.covariance + (1 - beta) * g.T @ g)
    first = b1 * first + (1 - b1) * rotated
    second = b2 * second + (1 - b2) * rotated**2
    return Moments(first, second, left, right)


def _direction(moments: Moments, step: Array, b1: float, b2: float, eps: float) -> Float[Array, "m n"]:
    first, second, left, right = moments
    # A preconditioned matrix has one gradient less in its moments: the first went to the bases.
    n = step + 1 if left is None and right is None else jnp.maximum(step, 1)
    n = n.astype(first.dtype)  # or the powers below would make float32 updates float64 when x64 is on
    direction = (first / (1 - b1**n)) / (jnp.sqrt(second / (1 - b2**n)) + eps)
    if left is not None:
        direction = left.basis @ direction
    if right is not None:
        direction = direction @ right.basis.T
    return direction


def _keep(moments: list[Moments]) -> list[Moments]:
    return moments


def _initialise(moments: list[Moments]) -> list[Moments]:
    def exact(side: Side | None) -> Side | None:
        return None if side is None else side._replace(basis=jnp.linalg.eigh(side.covariance)[1][:, ::-1])

    return [m._replace(left=exact(m.left), right=exact(m.right)) for m in moments]


def _refresh(moments: list[Moments]) -> list[Moments]:
    refreshed: list[Moments] = []
    for first, second, left, right in moments:
        if left is not None:
            left, order, turn = _iterate(left)
            first, second = turn @ first, second[order, :]
        if right is not None:
            right, order, turn = _iterate(right)
            first, second = first @ turn.T, second[:, order]
        refreshed.append(Moments(first, second, left, right))
    return refreshed


def _iterate(side: Side) -> tuple[Side, Int[Array, " n"], Float[Array, "n n"]]:
    """One power iteration. Also returns the order given to the old directions, and the old basis seen in the new one.

    In a QR factorisation the leading columns converge first, so they are sorted by their Rayleigh quotients; the
    second moments move along with their directions.
    """
    covariance, basis = side
    image = covariance @ basis
    order = jnp.argsort(jnp.sum(basis * image, axis=0), descending=True)
    new = jnp.linalg.qr(image[:, order])[0]
    return Side(covariance, new), order, new.T @ basis
