"""Translations along a periodic axis: where an equation looks the same everywhere, one place is enough to learn."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bases.orthonormal import Orthonormal
from ..bases.trigonometric import Fourier
from ..equations.invariance import obstacle
from ..equations.problem import Problem
from .decoders import CP, Tucker
from .trunks import BasisTrunk, Trunk


class Translation(eqx.Module):
    r"""Makes a model commute with translations along one axis, whatever its branch has learned.

    The branch sees $u'(x) = u(x + \sigma)$ with $\sigma$ such that the first wave of $u'$ is a cosine. It answers with
    the coefficients of $s'$, and $s(x) = s'(x - \sigma)$ turns those of every cosine and its sine into each other.

    **Arguments:**

    - `place`: which of the trunks is that of the axis: a Fourier basis of odd size.
    - `inputs`: those that depend on the axis, and which of the last dimensions of their sensors it is; the first wave
        of the first of them decides.
    """

    place: int = eqx.field(static=True)
    inputs: tuple[tuple[str, int], ...] = eqx.field(static=True)

    def align(
        self, code: Mapping[str, Float[Array, "functions *_"]]
    ) -> tuple[dict[str, Float[Array, "functions *_"]], Float[Array, " functions"]]:
        """Inputs moved to a common place, and by which part of the axis, as an angle."""
        leader, dimension = self.inputs[0]
        values = jnp.moveaxis(code[leader], dimension, -1)
        first = jnp.sum(jnp.fft.rfft(values)[..., 1], axis=tuple(range(1, values.ndim - 1)))
        real, imaginary = jnp.real(first), jnp.imag(first)
        # Where there is no first wave, any place is as good, and the angle must not be differentiated.
        there = real**2 + imaginary**2 > jnp.finfo(real.dtype).tiny
        turn = -jnp.arctan2(jnp.where(there, imaginary, 0.0), jnp.where(there, real, 1.0))
        return {**code, **{name: _moved(code[name], along, turn) for name, along in self.inputs}}, turn

    def restore(
        self, coefficients: Float[Array, "functions fields *ranks"], turn: Float[Array, " functions"]
    ) -> Float[Array, "functions fields *ranks"]:
        """The coefficients of the solutions where their inputs are."""
        c = jnp.moveaxis(coefficients, 2 + self.place, -1)
        cosine, sine = c[..., 1::2], c[..., 2::2]
        angle = _angles(turn, np.arange(1, cosine.shape[-1] + 1), c.ndim)
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        pairs = jnp.stack([cosine * cos - sine * sin, cosine * sin + sine * cos], axis=-1)
        turned = jnp.concatenate([c[..., :1], pairs.reshape(*c.shape[:-1], -1)], axis=-1)
        return jnp.moveaxis(turned, -1, 2 + self.place)


def _moved(values: Array, axis: int, turn: Float[Array, " functions"]) -> Array:
    v = jnp.moveaxis(values, axis, -1)
    waves = jnp.fft.rfft(v)
    angle = _angles(turn, np.arange(waves.shape[-1]), v.ndim)
    return jnp.moveaxis(jnp.fft.irfft(waves * (jnp.cos(angle) + 1j * jnp.sin(angle)), v.shape[-1]), -1, axis)


def _angles(turn: Float[Array, " functions"], waves: np.ndarray, ndim: int) -> Float[Array, "functions ..."]:
    """By how much each wave turns, along the last of `ndim` axes."""
    angles = turn[:, None] * jnp.asarray(waves, turn.dtype)[None]
    return angles.reshape(len(turn), *(1,) * (ndim - 2), -1)


def make_translation(
    problem: Problem, axis: str, exact: tuple[str, ...], trunks: tuple[Trunk, ...], decoder: CP | Tucker
) -> Translation:
    """The translation along an axis, if the problem and the basis functions of a model allow one."""
    reason = obstacle(problem, axis)
    if reason is not None:
        raise ValueError(f"model.invariant = {axis!r} {reason}")
    place = problem.domain.names.index(axis)
    trunk = trunks[place]
    bases: tuple[Any, ...] = trunk.bases if isinstance(trunk, BasisTrunk) else ()
    paired = [isinstance(b, Orthonormal) and b.family is Fourier and b.size % 2 == 1 for b in bases]
    if axis not in exact or not isinstance(decoder, Tucker) or not bases or not all(paired):
        raise ValueError(
            f"model.invariant = {axis!r} turns cosines and sines into each other: it needs decoder = 'tucker', "
            f"trunk = 'fourier' and an odd rank along {axis}, and that axis exact"
        )
    axes = {name: tuple(space.domain) for name, space in sorted(problem.inputs.items())}
    return Translation(place, tuple((name, own.index(axis) - len(own)) for name, own in axes.items() if axis in own))
