"""Optimizers, learning-rate schedules and weight averaging, all as Optax understands them."""

from .ema import average as average
from .registry import make_optimizer as make_optimizer
from .registry import make_schedule as make_schedule
from .schedules import cosine as cosine
from .schedules import exponential as exponential
from .schedules import warmup_stable_decay as warmup_stable_decay
from .soap import SoapState as SoapState
from .soap import scale_by_soap as scale_by_soap
from .soap import soap as soap
