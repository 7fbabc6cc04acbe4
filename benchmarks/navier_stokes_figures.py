"""Pictures of two-dimensional flows, and of what a residual says about an error."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from PIL import Image

import seponet

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

TICKS, LABELS = (0, np.pi, 2 * np.pi), ("0", "$\\pi$", "$2\\pi$")
STYLE: Mapping[str, Any] = {"origin": "lower", "cmap": "RdBu_r", "extent": (0, 2 * np.pi) * 2}


def vorticity(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """q_x - p_y on a uniform grid of [0, 2 pi)^2."""
    k = np.fft.fftfreq(p.shape[-1], 1 / p.shape[-1])
    k[len(k) // 2] = 0
    turn = 1j * k[:, None] * np.fft.fft2(q) - 1j * k[None] * np.fft.fft2(p)
    return np.fft.ifft2(turn).real


def draw_scatter(rows: Mapping[str, Any], path: Path) -> None:
    """The largest residual of a state's windows against its error."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    for axis, key in zip(axes, ("T=0.1", "T=1"), strict=True):
        states = rows[key]["per_state"]
        axis.plot(states["largest_relative_residual"], 100 * np.asarray(states["relative_l2"]), ".", color="#20639b")
        axis.set(xlim=(0, None), ylim=(0, None))
        axis.set(xlabel="largest relative residual of a window", ylabel="relative $L^2$ error of the velocity (%)")
        axis.set_title(f"{key}: rank correlation {rows[key]['residual_error_rank_correlation']:.2f}", fontsize=10)
        axis.grid(alpha=0.3)
    _save(figure, path, 110)


def draw_snapshots(
    points: Mapping[str, np.ndarray],
    exact: Mapping[str, np.ndarray],
    predicted: Mapping[str, np.ndarray],
    path: Path,
    state: int = 0,
) -> None:
    """Vorticity at four times: reference, prediction, and their difference on its own scale."""
    snapshots = [0, 3, 6, 9]
    figure, axes = plt.subplots(3, len(snapshots), figsize=(8.6, 6.4), layout="constrained")
    pairs = [[vorticity(flow["p"][state, i], flow["q"][state, i]) for i in snapshots] for flow in (exact, predicted)]
    error = [b - a for a, b in zip(*pairs, strict=True)]
    largest = max(np.abs(w).max() for w in pairs[0])
    small = max(np.abs(e).max() for e in error)
    names = ("reference", "prediction", "prediction - reference")
    for row, (fields, scale) in enumerate(((pairs[0], largest), (pairs[1], largest), (error, small))):
        for column, (w, i) in enumerate(zip(fields, snapshots, strict=True)):
            axis = axes[row, column]
            image = axis.imshow(w.T, vmin=-scale, vmax=scale, **STYLE)
            axis.set(xticks=TICKS if row == 2 else [], yticks=TICKS if column == 0 else [])
            axis.set(xticklabels=LABELS if row == 2 else [], yticklabels=LABELS if column == 0 else [])
            if row == 2:
                axis.set_xlabel("$x$")
            if row == 0:
                axis.set_title("input" if i == 0 else f"t = {points['t'][i]:.2f}", fontsize=10)
        axes[row, 0].set_ylabel(f"{names[row]}\n$y$")
        bar = figure.colorbar(image, ax=axes[row], shrink=0.85)  # pyright: ignore[reportPossiblyUnboundVariable]
        bar.set_label("vorticity")
    _save(figure, path, 80)


def draw_film(operator: seponet.Operator, u: Any, path: Path, frames: int = 21) -> None:
    """The vorticity of one predicted flow up to t = 1."""
    x = np.linspace(0, 2 * np.pi, 96, endpoint=False)
    times = np.linspace(0, 1, frames)
    solution = operator.advance(u, t=times, x=x, y=x)
    flow = vorticity(solution["p"].to_numpy()[0], solution["q"].to_numpy()[0])
    scale = np.abs(flow).max()
    images: list[Image.Image] = []
    for w, t in zip(flow, times, strict=True):
        figure, axis = plt.subplots(figsize=(2.2, 2.4), layout="constrained")
        axis.imshow(w.T, vmin=-scale, vmax=scale, **STYLE)
        axis.set(xticks=[], yticks=[])
        axis.set_title(f"vorticity, t = {t:.2f}", fontsize=9)
        images.append(_drawn(figure, 80).quantize(64, method=Image.Quantize.MAXCOVERAGE))
    images[0].save(path, save_all=True, append_images=images[1:], duration=150, loop=0)


def _save(figure: Figure, path: Path, dpi: int) -> None:
    """All colours: a palette would make bands of a colour bar."""
    _drawn(figure, dpi).save(path, optimize=True)


def _drawn(figure: Figure, dpi: int) -> Image.Image:
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=dpi, format="png")
    plt.close(figure)
    return Image.open(buffer).convert("RGB")
