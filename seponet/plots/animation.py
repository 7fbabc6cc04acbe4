"""Reference, prediction and error as they evolve: an animated GIF."""

from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.image import NonUniformImage
from PIL import Image

from .._files import replacing
from ..drawing.style import TITLE, add_colour_bar, new_figure, scale_of, symbol, symmetric_scale
from .case import Case
from .panels import arrange, close_periodic_axes, draw_slice

MOVIE_DPI = 88


def animate(
    case: Case, path: str | Path, *, frames: int = 30, seconds: float = 5.0, limit: int = 2_000_000, quantity: str = ""
) -> Path:
    """Write a GIF of one function; with fewer frames if it would be too large.

    **Arguments:**

    - `case`: a function of three variables or more, with or without a prediction.
    - `path`: a .gif file.
    - `frames`: at most so many; a grid with fewer times has one for each.
    - `seconds`: how long it runs.
    - `limit`: bytes.
    - `quantity`: a field, or "vorticity" or "speed" of a flow.
    """
    path = Path(path)
    if path.suffix.lower() != ".gif":
        raise ValueError(f"an animation's name must end in .gif; got {path.name!r}")
    if frames < 2:
        raise ValueError(f"an animation needs at least 2 frames; got {frames}")
    movie = Movie(case, quantity or case.quantities()[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        movie.write(path, max(frames, 2), seconds)
        if path.stat().st_size <= limit or frames <= 2:
            return path
        frames = min(frames, movie.times.shape[0]) * limit // path.stat().st_size - 1


class Movie:
    """A figure whose panels can be set to any time."""

    def __init__(self, case: Case, quantity: str) -> None:
        arrangement = arrange(case.problem, case.points)
        if arrangement.along is None:
            raise ValueError(
                f"an animation needs three axes with several points each; {type(case.problem).__name__} has "
                f"{', '.join(case.problem.domain)} here, for which draw_comparison shows everything at once"
            )
        self.case, self.arrangement = case, arrangement
        self.times = case.points[arrangement.along]
        exact, predicted = case.show(quantity)
        self.scales = [scale_of(exact, exact if predicted is None else predicted)]
        name = symbol(quantity)
        rows = [(f"reference {name}", exact, self.scales[0])]
        if predicted is not None:
            self.scales.append(symmetric_scale(predicted - exact))
            rows.append((f"prediction {name}", predicted, self.scales[0]))
            rows.append(("prediction − reference", predicted - exact, self.scales[1]))
        self.values = [values for _, values, _ in rows]
        self.figure = new_figure(3.1, 3.1 * len(rows))
        self.figure.set_dpi(MOVIE_DPI)
        self.canvas = FigureCanvasAgg(self.figure)
        panels = list(self.figure.subplots(1, len(rows), squeeze=False)[0])
        self.images: list[NonUniformImage | QuadMesh] = []
        self.drawn = [(label, scale) for label, _, scale in rows]
        for axes, (label, values, scale) in zip(panels, rows, strict=True):
            self.images.append(draw_slice(axes, case, arrangement, arrangement.cut(values), scale, label))
            if axes is not panels[0]:
                axes.set_ylabel("")
                axes.tick_params(labelleft=False)
        add_colour_bar(self.figure, self.images[len(rows) // 2], panels[len(rows) // 2])
        if predicted is not None:
            add_colour_bar(self.figure, self.images[-1], panels[-1])
        self.show(0)
        # Laid out once: panels that move with the width of a label would make the movie jitter.
        self.figure.draw_without_rendering()
        self.figure.set_layout_engine("none")

    def show(self, i: int) -> Figure:
        """The figure at the i-th time."""
        along = symbol(self.arrangement.along or "")
        width = 3 if self.times[-1] - self.times[0] < 1 else 2
        title = f"{self.case.title()},  {along} = {self.times[i]:.{width}f}"
        self.figure.suptitle(title, fontsize=TITLE)
        for number, (image, values) in enumerate(zip(self.images, self.values, strict=True)):
            shown = self.arrangement.cut(values, i)
            if isinstance(image, QuadMesh):
                self._redraw(number, image, shown, i)
            else:
                image.set_data(*close_periodic_axes(self.case, self.arrangement, shown))
        return self.figure

    def _redraw(self, number: int, image: QuadMesh, shown: np.ndarray, i: int) -> None:
        """A mapped domain: new colours, and a new shape if it moves."""
        chart = self.case.problem.chart
        if chart is None or not chart.moves_with(self.arrangement.along or ""):
            image.set_array(shown)
            return
        axes, (label, scale) = image.axes, self.drawn[number]
        assert isinstance(axes, Axes)
        for artist in (*axes.collections, *axes.lines):
            artist.remove()
        self.images[number] = draw_slice(axes, self.case, self.arrangement, shown, scale, label, i)

    def write(self, path: Path, frames: int, seconds: float) -> None:
        """Write at most `frames` equally spaced times."""
        last = self.times.shape[0] - 1
        chosen = np.unique(np.round(np.linspace(0, last, min(frames, last + 1))).astype(int))
        pictures = [self._render(int(i)) for i in chosen]
        palette = _palette([scale.colours for scale in self.scales])
        first, *rest = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
        duration = max(20, round(1000 * seconds / len(pictures)))
        with replacing(path) as fresh:
            first.save(fresh, save_all=True, append_images=rest, duration=duration, loop=0)

    def _render(self, i: int) -> Image.Image:
        self.show(i)
        self.canvas.draw()
        return Image.fromarray(np.asarray(self.canvas.buffer_rgba())[..., :3].copy())


def _palette(names: list[str]) -> Image.Image:
    """A palette of the colour maps and greys: one for all frames and without dithering, so that nothing flickers."""
    greys = np.linspace(0, 255, 16)[:, None].repeat(3, 1)
    count = (256 - len(greys)) // len(names)
    maps = [255 * colormaps[name](np.linspace(0, 1, count))[:, :3] for name in names]
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.round(np.concatenate([greys, *maps])).astype(np.uint8).tobytes())
    return palette
