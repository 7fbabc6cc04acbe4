"""Optimizers, learning-rate schedules and the average of weights, all as Optax understands them."""

from .registry import average, make_optimizer, make_schedule
from .schedules import cosine, exponential, warmup_stable_decay
from .soap import SoapState, scale_by_soap, soap

__all__ = [
    "SoapState",
    "average",
    "cosine",
    "exponential",
    "make_optimizer",
    "make_schedule",
    "scale_by_soap",
    "soap",
    "warmup_stable_decay",
]
