"""The general recipe, untouched, on PDEs that are not the paper's: five of tests/zoo.py, given reference solvers.

    python benchmarks/zoo.py                    # all five: at most ten minutes on two cores
    python benchmarks/zoo.py KdV --seeds 0 1
    python benchmarks/zoo.py --references       # the references' own errors only

Errors are means over 100 unseen functions; seconds include compilation. On a machine that others use, processor
seconds say more: on one core, they are the seconds that an idle one would have taken.
"""

import argparse
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.fft
from exponential import solve_semilinear
from results import machine, store

import seponet
from seponet import Problem
from seponet.evaluation.report import evaluation_report
from seponet.evaluation.testset import load_testset
from seponet.functions import Functions, as_callable
from seponet.reference import sine_coefficients
from seponet.runs.recipes import load_recipe

sys.path.append(str(Path(__file__).parent.parent))
from tests import zoo

Inputs, Points, Fields = Mapping[str, Functions], Mapping[str, np.ndarray], dict[str, np.ndarray]


class Poisson(zoo.Poisson):
    """By its double sine series."""

    reference_resolution = 128

    def reference(self, inputs: Inputs, points: Points, resolution: int) -> Fields:
        u, k = as_callable(inputs["u"]), np.arange(1, resolution + 1)
        count = len(inputs["u"])

        def along_x(x: np.ndarray) -> np.ndarray:
            # The coefficients along y, as functions of x.
            def along_y(y: np.ndarray) -> np.ndarray:
                return u(x, y).reshape(-1, len(y))

            found = sine_coefficients(along_y, resolution, (0.0, 2.0))
            return found.reshape(count, len(x), resolution).transpose(0, 2, 1).reshape(-1, len(x))

        found = sine_coefficients(along_x, resolution).reshape(count, resolution, resolution)
        s = -found / (np.pi**2 * (k**2 + (k[:, None] / 2) ** 2))
        waves = np.sin(np.pi / 2 * np.outer(k, points["y"])), np.sin(np.pi * np.outer(k, points["x"]))
        return {"s": np.einsum("fkl,ky,lx->fxy", s, *waves, optimize=True)}


class Wave(zoo.Wave):
    """By separation of variables."""

    reference_resolution = 128

    def reference(self, inputs: Inputs, points: Points, resolution: int) -> Fields:
        a, b = (sine_coefficients(as_callable(inputs[name]), resolution) for name in ("u", "v"))
        k = np.pi * np.arange(1, resolution + 1)
        phase = np.outer(points["t"], self.c * k)
        s = a[:, None] * np.cos(phase) + b[:, None] * np.sin(phase) / (self.c * k)
        return {"s": s @ np.sin(np.outer(k, points["x"]))}


class AllenCahn(zoo.AllenCahn):
    """By cosines in x."""

    reference_resolution = 256

    def reference(self, inputs: Inputs, points: Points, resolution: int) -> Fields:
        x, k = midpoints(resolution), np.pi * np.arange(resolution)

        def nonlinear(c: np.ndarray) -> np.ndarray:
            return -scipy.fft.dct(scipy.fft.idct(c) ** 3)

        initial = scipy.fft.dct((1 + x) * as_callable(inputs["u"])(x) ** 2)
        c = solve_semilinear(1 - self.epsilon * k**2, nonlinear, initial, points["t"], steps=resolution)
        return {"s": cosine_series(c, points["x"])}


class KdV(zoo.KdV):
    """By Fourier modes, two thirds of them kept."""

    reference_resolution = 128

    def reference(self, inputs: Inputs, points: Points, resolution: int) -> Fields:
        x, k = -1 + 2 * np.arange(resolution) / resolution, np.pi * np.arange(resolution // 2 + 1)
        kept = np.arange(resolution // 2 + 1) < resolution / 3

        def nonlinear(c: np.ndarray) -> np.ndarray:
            return -3j * k * kept * scipy.fft.rfft(scipy.fft.irfft(c, resolution) ** 2)

        initial = kept * scipy.fft.rfft(as_callable(inputs["u"])(x))
        c = solve_semilinear(1j * self.delta**2 * k**3, nonlinear, initial, points["t"], steps=4 * resolution)
        waves = np.exp(1j * np.outer(k, points["x"] + 1)) * np.where(k > 0, 2, 1)[:, None] / resolution
        return {"s": (c @ waves).real.swapaxes(0, 1)}


class Brusselator(zoo.Brusselator):
    """By sines for p - 1/2 and cosines for q; u does not vanish on the walls, so the sines converge with order 2.5."""

    reference_resolution = 256

    def reference(self, inputs: Inputs, points: Points, resolution: int) -> Fields:
        x, k = midpoints(resolution), np.pi * np.arange(resolution)
        u = as_callable(inputs["u"])(x)
        linear = -self.diffusion * np.stack([(k + np.pi) ** 2, k**2])[:, None]

        def nonlinear(c: np.ndarray) -> np.ndarray:
            p, q = 0.5 + scipy.fft.idst(c[0]), scipy.fft.idct(c[1])
            return np.stack([scipy.fft.dst(p**2 * q - 2 * p + u), scipy.fft.dct(p - p**2 * q)])

        initial = np.stack([np.zeros_like(u), scipy.fft.dct(np.ones_like(u))])
        c = solve_semilinear(linear, nonlinear, initial, points["t"], steps=resolution)
        return {"p": 0.5 + sine_series(c[:, 0], points["x"]), "q": cosine_series(c[:, 1], points["x"])}


def midpoints(n: int) -> np.ndarray:
    return (np.arange(n) + 0.5) / n


def cosine_series(c: np.ndarray, x: np.ndarray) -> np.ndarray:
    """From `scipy.fft.dct` of `[t, functions, n]` midpoint values to `[functions, t, x]`."""
    k = np.arange(c.shape[-1])
    return (c @ (np.cos(np.pi * np.outer(k, x)) * np.where(k > 0, 2, 1)[:, None] / (2 * len(k)))).swapaxes(0, 1)


def sine_series(c: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The same from `scipy.fft.dst`."""
    k = np.arange(1, c.shape[-1] + 1)
    return (c @ (np.sin(np.pi * np.outer(k, x)) * np.where(k < len(k), 2, 1)[:, None] / (2 * len(k)))).swapaxes(0, 1)


PROBLEMS: dict[str, type[Problem]] = {p.__name__: p for p in (Poisson, Wave, AllenCahn, KdV, Brusselator)}


def measure(name: str, seed: int) -> dict[str, Any]:
    """One training with the general recipe as it is, and its evaluation."""
    began, used = time.perf_counter(), time.process_time()
    operator = seponet.train(PROBLEMS[name](), "quick", seed=seed, quiet=True)
    times = {"seconds": time.perf_counter() - began, "processor_seconds": time.process_time() - used}
    found = evaluation_report(operator)
    cores = len(os.sched_getaffinity(0))
    row = {"problem": name, "seed": seed, **times, "cores": cores, "coefficients": operator.model.coefficient_shape()}
    row |= {key: found[key] for key in ("relative_l2_mean", "relative_l2_std", "rmse_mean", "reference_error")}
    return {**row, "relative_l2_max": max(found["per_function"]["relative_l2"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", help=f"some of {', '.join(PROBLEMS)}; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--references", action="store_true", help="only solve the test functions, and say how well")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in arguments.problems or PROBLEMS:
        # Solved before the clock runs; the few validation functions are solved while it does, unless they are cached.
        error = load_testset(PROBLEMS[name](), "test").own_error
        print(f"{name}: the reference's own error is {error:.2g}", flush=True)
        for seed in () if arguments.references else arguments.seeds:
            rows.append(measure(name, seed))
            print(rows[-1], flush=True)
            store("zoo", {"machine": machine(), "recipe": load_recipe("quick").to_dict(), "rows": rows})


if __name__ == "__main__":
    main()
