"""Trigonometric bases: Fourier on periodic axes, sines between two zeros."""

from abc import abstractmethod
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from .base import Basis


class _Trigonometric(Basis):
    """sqrt(2/L) cos(2 pi f_k (x - lower) / L - q_k pi/2): f_k periods on the axis, late by q_k quarter periods."""

    @abstractmethod
    def cycles(self) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of periods f_k and the phases q_k, `[size]` each."""

    def evaluate(self, points: Any, order: int, xp: ModuleType) -> Any:
        cycles, quarters = self.cycles()
        length = self.axis.length
        scale = np.where(cycles > 0, np.sqrt(2 / length), np.sqrt(1 / length))
        m = np.arange(order + 1)[:, None]
        turn = (m - quarters) % 4
        amplitude = scale * (2 * np.pi * cycles / length) ** m
        # The m-th derivative is a turn by m quarters: amplitude cos(phase + turn pi/2).
        cosine = xp.asarray(amplitude * np.array([1, 0, -1, 0])[turn], points.dtype)[:, None]
        sine = xp.asarray(amplitude * np.array([0, -1, 0, 1])[turn], points.dtype)[:, None]
        # Centred on zero rather than on `lower`: a shift of the points would cost float32 digits, one of constants not.
        phase = _phase(points / length, xp.asarray(cycles, points.dtype), xp)
        phase = phase - xp.asarray(2 * np.pi * (cycles * self.axis.lower / length % 1), points.dtype)[None]
        return cosine * xp.cos(phase)[None] + sine * xp.sin(phase)[None]


def _phase(place: Any, cycles: Any, xp: ModuleType) -> Any:
    # 2 pi cycles place, without whole turns. The leading twelve bits of `place` are split off, so that whole turns are
    # removed without rounding: the 32nd harmonic is then as accurate in float32 as the first.
    leading = xp.round(4096 * place) / 4096
    turns = leading[:, None] * cycles[None]
    return 2 * np.pi * (turns - xp.round(turns) + (place - leading)[:, None] * cycles[None])


@dataclass(frozen=True)
class Fourier(_Trigonometric):
    """1, cos, sin, cos 2., sin 2., ... of 2 pi (x - lower) / L, L2-orthonormal. An even size ends with a cosine."""

    @property
    def harmonic(self) -> bool:
        return True

    def cycles(self) -> tuple[np.ndarray, np.ndarray]:
        k = np.arange(self.size)
        return (k + 1.0) // 2, np.where(k > 0, 1 - k % 2, 0)


@dataclass(frozen=True)
class Sine(_Trigonometric):
    """sqrt(2/L) sin(k pi (x - lower) / L), k = 1..size: L2-orthonormal and zero at both ends."""

    def cycles(self) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(1, self.size + 1) / 2, np.ones(self.size, int)
