"""Translations along a periodic axis: where an equation is invariant to them, one position is enough to learn."""

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..calculus.decoder import AbstractDecoder
from ..equations.invariance import obstacle
from ..equations.problem import Problem
from .trunks import AbstractTrunk


class Translation(eqx.Module):
    r"""Makes a model commute with translations along one axis, whatever its branch has learned.

    The branch sees $u'(x) = u(x + \sigma)$ with $\sigma$ such that the first Fourier mode of $u'$ is a cosine. It
    answers with the coefficients of $s'$, and $s(x) = s'(x - \sigma)$ turns those of every cosine and its sine into
    each other.

    **Arguments:**

    - `place`: which of the trunks is that of the axis: a Fourier basis of odd size.
    - `inputs`: those that depend on the axis, and which of the last dimensions of their sensors it is; the first mode
        of the first of them decides.
    """

    place: int = eqx.field(static=True)
    inputs: tuple[tuple[str, int], ...] = eqx.field(static=True)

    def align(
        self, sensor_values: Mapping[str, Float[Array, "functions *_"]]
    ) -> tuple[dict[str, Float[Array, "functions *_"]], Float[Array, " functions"]]:
        """Inputs translated to a common phase.

        **Returns:** the translated sensor values, and by which part of the axis each function was moved, as an angle.
        """
        leader, dimension = self.inputs[0]
        values = jnp.moveaxis(sensor_values[leader], dimension, -1)
        first = jnp.sum(jnp.fft.rfft(values)[..., 1], axis=tuple(range(1, values.ndim - 1)))
        real, imaginary = jnp.real(first), jnp.imag(first)
        # Where there is no first mode, any position is as good, and the angle must not be differentiated.
        there = real**2 + imaginary**2 > jnp.finfo(real.dtype).tiny
        angle = -jnp.arctan2(jnp.where(there, imaginary, 0.0), jnp.where(there, real, 1.0))
        translated = {name: _translate(sensor_values[name], along, angle) for name, along in self.inputs}
        return {**sensor_values, **translated}, angle

    def restore(
        self, coefficients: Float[Array, "functions fields *ranks"], angle: Float[Array, " functions"]
    ) -> Float[Array, "functions fields *ranks"]:
        """The coefficients of the solutions, translated back to where their inputs are."""
        c = jnp.moveaxis(coefficients, 2 + self.place, -1)
        pairs = c.shape[-1] // 2
        phase = _phases(angle, np.arange(1, pairs + 1), c.ndim)
        cos, sin = jnp.cos(phase), jnp.sin(phase)
        # Every cosine trades places with its sine in one gather: slices of every second number, put together again,
        # took XLA a sixth of a training step of Burgers' equation.
        partner = np.concatenate([[0], np.arange(1, 2 * pairs + 1).reshape(-1, 2)[:, ::-1].ravel()])
        turned = _interleaved(1.0, cos, cos) * c + _interleaved(0.0, -sin, sin) * c[..., partner]
        return jnp.moveaxis(turned, -1, 2 + self.place)


def _interleaved(mean: float, cosines: Array, sines: Array) -> Array:
    """A number for the mean and one for every cosine and sine, in the order of a Fourier basis."""
    pairs = jnp.stack([cosines, sines], axis=-1).reshape(*cosines.shape[:-1], -1)
    return jnp.concatenate([jnp.full_like(pairs[..., :1], mean), pairs], axis=-1)


def _translate(values: Array, axis: int, angle: Float[Array, " functions"]) -> Array:
    v = jnp.moveaxis(values, axis, -1)
    modes = jnp.fft.rfft(v)
    phase = _phases(angle, np.arange(modes.shape[-1]), v.ndim)
    return jnp.moveaxis(jnp.fft.irfft(modes * (jnp.cos(phase) + 1j * jnp.sin(phase)), v.shape[-1]), -1, axis)


def _phases(angle: Float[Array, " functions"], wavenumbers: np.ndarray, ndim: int) -> Float[Array, "functions ..."]:
    """By how much each mode turns, along the last of `ndim` axes."""
    phases = angle[:, None] * jnp.asarray(wavenumbers, angle.dtype)[None]
    return phases.reshape(len(angle), *(1,) * (ndim - 2), -1)


def make_translation(
    problem: Problem, axis: str, exact: tuple[str, ...], trunks: tuple[AbstractTrunk, ...], decoder: AbstractDecoder
) -> Translation:
    """The translation along an axis, if the problem and the basis functions of a model allow one."""
    reason = obstacle(problem, axis)
    if reason is not None:
        raise ValueError(f"model.invariant = {axis!r} {reason}")
    place = problem.domain.names.index(axis)
    bases = trunks[place].classical_bases
    paired = bases is not None and all(basis.harmonic and basis.size % 2 == 1 for basis in bases)
    if axis not in exact or not decoder.has_core or not paired:
        raise ValueError(
            f"model.invariant = {axis!r} turns cosines and sines into each other: it needs decoder = 'tucker', "
            f"trunk = 'fourier' and an odd rank along {axis}, and that axis exact"
        )
    axes = {name: tuple(space.domain) for name, space in sorted(problem.inputs.items())}
    moving = tuple((name, names.index(axis) - len(names)) for name, names in axes.items() if axis in names)
    return Translation(place, moving)
