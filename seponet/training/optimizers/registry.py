"""Optimizers and schedules by the names that recipes use."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import optax

from ..._text import did_you_mean
from .schedules import cosine, exponential
from .soap import soap


def adam(
    learning_rate: optax.ScalarOrSchedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> optax.GradientTransformation:
    """Adam on all weights as one vector: a few sweeps over it instead of several for each of many small arrays."""
    return optax.flatten(optax.adam(learning_rate, b1, b2, eps))


OPTIMIZERS: Mapping[str, Callable[..., optax.GradientTransformation]] = {
    "adam": adam,
    "muon": optax.contrib.muon,
    "soap": soap,
}
SCHEDULES: Mapping[str, Callable[..., optax.Schedule]] = {
    "constant": lambda rate: optax.constant_schedule(rate),
    "cosine": cosine,
    "exponential": exponential,
}


def make_optimizer(name: str, schedule: optax.ScalarOrSchedule, **options: Any) -> optax.GradientTransformation:
    """The optimizer `name` with the learning rate `schedule`; Muon updates what isn't a matrix by Adam.

    ```python
    make_optimizer("soap", cosine(3e-3, steps=10_000), frequency=20)
    ```

    **Arguments:**

    - `name`: one of `adam`, `muon`, `soap`.
    - `schedule`: a number or a schedule.
    - `options`: the optimizer's own arguments.
    """
    return _call("optimizer", OPTIMIZERS, name, (schedule,), options)


def make_schedule(name: str, **options: Any) -> optax.Schedule:
    """The schedule `name`: `constant`, `cosine` or `exponential`, with its own arguments."""
    return _call("schedule", SCHEDULES, name, (), options)


def _call(kind: str, known: Mapping[str, Callable[..., Any]], name: str, values: tuple, options: dict[str, Any]) -> Any:
    if name not in known:
        raise ValueError(f"there is no {kind} {name!r}{did_you_mean(name, known)}; choose one of {', '.join(known)}")
    make = known[name]
    parameters = list(inspect.signature(make).parameters.values())
    allowed = [p.name for p in parameters[len(values) :]]
    for option in options:
        if option not in allowed:
            raise ValueError(
                f"the {kind} {name!r} has no option {option!r}{did_you_mean(option, allowed)}; "
                f"its options are {', '.join(allowed)}"
            )
    missing = [p.name for p in parameters[len(values) :] if p.default is p.empty and p.name not in options]
    if missing:
        raise ValueError(f"the {kind} {name!r} needs {', '.join(missing)}")
    return make(*values, **options)
