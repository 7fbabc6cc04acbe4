"""Branches: from the values of the input functions at the sensors to the coefficients of the solution."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..bases.base import Basis
from .encoders import AbstractEncoder
from .fixed import is_fixed
from .gated_mlp import GatedMLP
from .mlp import MLP


class AbstractBranch(eqx.Module):
    """A map from inputs at their sensors to one row of outputs for each function: coefficients, but for a coefficient
    map (`coefficient_maps.py`)."""

    @abc.abstractmethod
    def __call__(self, sensor_values: Mapping[str, Array]) -> Float[Array, "functions out"]:
        """The outputs of every function.

        **Arguments:**

        - `sensor_values`: for each input that the branch sees, `[functions, *components, *sensors]`.
        """

    def prepare(self, sensor_values: Mapping[str, Array]) -> PyTree:
        """What need not be computed again for the same functions while the branch is trained."""
        return dict(sensor_values)

    def finish(self, prepared: PyTree) -> Float[Array, "functions out"]:
        """The outputs for what `prepare` gave."""
        return self(prepared)

    def features(self, prepared: PyTree) -> Float[Array, "functions features"] | None:
        """The numbers behind `prepared` that a network is a function of; None if some of them are trained."""
        return None

    def adapted(
        self, basis: Sequence[Basis], coefficients: Float[np.ndarray, "functions fields *ranks"]
    ) -> "AbstractBranch":
        """The branch with scales from solved functions, before it is trained; by default as it is.

        **Arguments:**

        - `basis`: along each axis the basis functions that the coefficients belong to.
        """
        return self


class Branch(AbstractBranch):
    """One encoder per named input; the features are joined, in the alphabetical order of the names, and go through a
    body network.

    **Arguments:**

    - `encoders`: for each input its encoder.
    - `body`: a network `[functions, features] -> [functions, out]`; `Chain(())` where the encoders do everything.
    """

    encoders: dict[str, AbstractEncoder]
    body: Callable[[Any], Array]

    def __check_init__(self) -> None:
        if not self.encoders:
            raise ValueError("a branch needs at least one input; without inputs use Constant")
        # The body may be any callable; one that knows its input size is checked.
        expected, size = getattr(self.body, "in_size", None), count_features(self.encoders)
        if expected is not None and expected != size:
            raise ValueError(f"the encoders give {size} features and the body expects {expected}; make the two agree")

    @classmethod
    def mlp(
        cls,
        encoders: Mapping[str, AbstractEncoder],
        out_size: int,
        width: int,
        depth: int,
        activation: str = "tanh",
        *,
        skip: bool = False,
        zero_last: bool = False,
        key: PRNGKeyArray,
    ) -> "Branch":
        """A branch whose body is an `MLP` of fitting input size."""
        in_size = count_features(encoders)
        body = MLP(in_size, out_size, width, depth, activation, skip=skip, zero_last=zero_last, key=key)
        return cls(dict(encoders), body)

    @classmethod
    def gated(
        cls,
        encoders: Mapping[str, AbstractEncoder],
        out_size: int,
        width: int,
        depth: int,
        activation: str = "gelu",
        *,
        zero_last: bool = False,
        key: PRNGKeyArray,
    ) -> "Branch":
        """A branch whose body is a `GatedMLP` of fitting input size."""
        body = GatedMLP(count_features(encoders), out_size, width, depth, activation, zero_last=zero_last, key=key)
        return cls(dict(encoders), body)

    def __call__(self, sensor_values: Mapping[str, Array]) -> Float[Array, "functions out"]:
        return self.finish(self.prepare(sensor_values))

    def prepare(self, sensor_values: Mapping[str, Array]) -> dict[str, Array]:
        """The features of encoders that are not trained, and the values that trained ones will encode."""
        self._check(sensor_values)
        return {
            name: encoder(sensor_values[name]) if is_fixed(encoder) else sensor_values[name]
            for name, encoder in self.encoders.items()
        }

    def finish(self, prepared: Mapping[str, Array]) -> Float[Array, "functions out"]:
        return self.body(self._join(prepared))

    def features(self, prepared: Mapping[str, Array]) -> Float[Array, "functions features"] | None:
        return self._join(prepared) if all(is_fixed(encoder) for encoder in self.encoders.values()) else None

    def _join(self, prepared: Mapping[str, Array]) -> Float[Array, "functions features"]:
        encoded = [
            prepared[name] if is_fixed(encoder) else encoder(prepared[name])
            for name, encoder in sorted(self.encoders.items())
        ]
        return jnp.concatenate(encoded, axis=-1)

    def _check(self, sensor_values: Mapping[str, Array]) -> None:
        if set(sensor_values) != set(self.encoders):
            expected, got = ", ".join(sorted(self.encoders)), ", ".join(sorted(sensor_values)) or "none"
            raise ValueError(f"the branch was built for the inputs {expected}; got {got}")
        for name, encoder in self.encoders.items():
            values = sensor_values[name]
            if values.ndim == 0 or values.shape[1:] != encoder.shape:
                raise ValueError(
                    f"input {name!r} was expected with {_values(encoder.shape)} a function; "
                    f"got {_values(values.shape[1:])}"
                )
        counts = {name: values.shape[0] for name, values in sensor_values.items()}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{count} of {name}" for name, count in sorted(counts.items()))
            raise ValueError(f"every input must come for the same number of functions; got {listed}")


class Constant(AbstractBranch):
    """The branch of a problem without inputs: one function, the same coefficients always.

    **Arguments:**

    - `out_size`: the number of coefficients.
    - `key`: with a key the coefficients are trained, from normal random numbers; without, they are ones and the trunks
        carry everything (a separable PINN).
    - `scale`: the standard deviation of the random start; 0 starts from zero.
    """

    out_size: int = eqx.field(static=True)
    coefficients: Float[Array, " out"] | None

    def __init__(self, out_size: int, *, key: PRNGKeyArray | None = None, scale: float = 1.0) -> None:
        self.out_size = out_size
        self.coefficients = None if key is None else scale * jax.random.normal(key, (out_size,))

    def __call__(self, sensor_values: Mapping[str, Array]) -> Float[Array, "1 out"]:
        if sensor_values:
            raise ValueError(f"this model was built without inputs; got {', '.join(sorted(sensor_values))}")
        return jnp.ones((1, self.out_size)) if self.coefficients is None else self.coefficients[None]


def count_features(encoders: Mapping[str, AbstractEncoder]) -> int:
    """The number of features that the encoders give together."""
    return sum(encoder.size for encoder in encoders.values())


def _values(shape: tuple[int, ...]) -> str:
    if len(shape) <= 1:
        count = shape[0] if shape else 1
        return f"{count} sensor value{'' if count == 1 else 's'}"
    return f"{' x '.join(map(str, shape))} sensor values"
