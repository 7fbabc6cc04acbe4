"""Fixed linear maps from the branch's outputs to coefficients, chosen so that the loss sees every direction alike."""

import abc
import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .fixed import Fixed
from .linear import matmul


class AbstractCoefficientMap(eqx.Module):
    """A linear map from the outputs of a branch to coefficients, the same for every function and not trained."""

    @abc.abstractmethod
    def __call__(self, outputs: Float[Array, "functions outputs"]) -> Float[Array, "functions size"]:
        """The coefficients of every function, in one row."""

    @property
    def complete(self) -> bool:
        """Whether there is an output for every coefficient."""
        return True

    def compact(self, outputs: Float[Array, "functions outputs"]) -> Float[Array, "functions n"]:
        """Numbers with the distances of the coefficients: fewer of them, if outputs make few."""
        return self(outputs)

    def compress(self, coefficients: Float[Array, "functions size"]) -> Float[Array, "functions n"]:
        """Of the numbers that outputs can make, those nearest to coefficients."""
        return coefficients


class Whitening(AbstractCoefficientMap):
    r"""$c = \sigma\, z\, W$ with a fixed amplitude $\sigma$ and a fixed $W$: a vector (diagonal whitening) or a matrix.

    With the average residual operator $A = E_u[J^T J]$ of `losses.linearised.gram`, $W = A_{kk}^{-1/2}$ or $W = L^{-1}$
    where $A = L L^T$; then the mean squared residual of a linear problem is $\sigma^2 |z - z^*|^2$ plus a constant.

    **Arguments:**

    - `weight`: `[size]` or `[size, size]`.
    - `amplitude`: a small one gives a calm start.
    """

    weight: Fixed
    amplitude: float = eqx.field(static=True, default=1.0)

    def __call__(self, outputs: Float[Array, "functions size"]) -> Float[Array, "functions size"]:
        weight = self.amplitude * self.weight()
        return outputs * weight[None] if weight.ndim == 1 else matmul(outputs, weight)


class PrincipalComponents(AbstractCoefficientMap):
    r"""$c = \sum_k \sigma_k z_k v_k$ with fixed vectors $v_k$: principal components of solutions.

    They are orthonormal in the norm of the solutions, so that the numbers $\sigma_k z_k$ have its distances. On a box
    that is the sum of squares of coefficients; on a mapped domain it is not (`discretise/metric.py`).

    **Arguments:**

    - `vectors`: `[outputs, size]`, its rows orthonormal.
    - `scales`: how large the outputs are.
    - `duals`: `[outputs, size]`, the rows whose products with coefficients are the numbers; None if they are `vectors`.
    """

    vectors: Fixed
    scales: Fixed
    duals: Fixed | None = None

    def __call__(self, outputs: Float[Array, "functions outputs"]) -> Float[Array, "functions size"]:
        return matmul(self.compact(outputs), self.vectors())

    @property
    def complete(self) -> bool:
        count, size = self.vectors.value.shape
        return count == size

    def compact(self, outputs: Float[Array, "functions outputs"]) -> Float[Array, "functions outputs"]:
        return outputs * self.scales()[None]

    def compress(self, coefficients: Float[Array, "functions size"]) -> Float[Array, "functions outputs"]:
        return matmul(coefficients, (self.vectors if self.duals is None else self.duals)().T)


class ModalScaling(AbstractCoefficientMap):
    """Whitening of a core that is a field on a periodic grid: every Fourier mode of every component has its own factor.

    **Arguments:**

    - `weight`: `[components, *half grid]`, on the coefficients of a real FFT.
    - `grid`: the points along each periodic axis, which are the last axes of the core.
    """

    weight: Fixed
    grid: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, outputs: Float[Array, "functions size"]) -> Float[Array, "functions size"]:
        fields = outputs.reshape(outputs.shape[0], -1, *self.grid)
        axes = tuple(range(2, fields.ndim))
        series = jnp.fft.rfftn(fields, axes=axes) * self.weight()[None]
        return jnp.fft.irfftn(series, self.grid, axes).reshape(outputs.shape[0], math.prod(fields.shape[1:]))
