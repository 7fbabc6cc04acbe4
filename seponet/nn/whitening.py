"""Fixed linear maps from the branch's outputs to coefficients, chosen so that the loss sees every direction alike."""

import equinox as eqx
from jaxtyping import Array, Float

from .fixed import Fixed
from .linear import matmul


class Whitening(eqx.Module):
    r"""$c = \sigma\, z\, W$ with a fixed amplitude $\sigma$ and a fixed $W$: a vector (diagonal whitening) or a matrix.

    With the average residual operator $A = E_u[J^T J]$ of `conditioning.gram`, $W = A_{kk}^{-1/2}$ or $W = L^{-1}$
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
