"""Optimizers and learning-rate schedules, as Optax understands them."""

from .registry import make_optimizer, make_schedule
from .schedules import cosine, exponential
from .soap import SoapState, scale_by_soap, soap

__all__ = [
    "SoapState",
    "cosine",
    "exponential",
    "make_optimizer",
    "make_schedule",
    "scale_by_soap",
    "soap",
]
