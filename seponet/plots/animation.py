"""Reference, prediction and error as they evolve: an animated GIF."""

from pathlib import Path

import numpy as np
from matplotlib.animation import PillowWriter
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import NonUniformImage

from .case import Case
from .panels import arrange, close_circles, draw_slice
from .style import TITLE, add_colour_bar, new_figure, scale_of, symbol, symmetric_scale

MOVIE_DPI = 90


def animate(
    case: Case, path: str | Path, *, frames: int = 40, seconds: float = 5.0, limit: int = 2_000_000, quantity: str = ""
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
        movie.write(path, frames, seconds)
        if path.stat().st_size <= limit or frames <= 4:
            return path
        frames //= 2


class Movie:
    """A figure whose panels can be set to any time."""

    def __init__(self, case: Case, quantity: str) -> None:
        arrangement = arrange(case.problem, case.points)
        if arrangement.along is None:
            raise ValueError(
                f"an animation needs three axes with several points each; {type(case.problem).__name__} has "
                f"{', '.join(case.problem.domain)} here, for which plot_comparison shows everything at once"
            )
        self.case, self.arrangement = case, arrangement
        self.times = case.points[arrangement.along]
        exact, found = case.show(quantity)
        rows: list[tuple[str, np.ndarray]] = [("reference", exact)]
        if found is not None:
            rows += [("prediction", found), ("prediction − reference", found - exact)]
        self.values = [values for _, values in rows]
        self.figure = new_figure(3.1, 3.1 * len(rows))
        FigureCanvasAgg(self.figure)
        panels = list(self.figure.subplots(1, len(rows), squeeze=False)[0])
        scale = scale_of(*self.values[:2])
        self.images: list[NonUniformImage] = []
        for axes, (label, values) in zip(panels, rows, strict=True):
            colours = symmetric_scale(values) if label.endswith("reference") and label != "reference" else scale
            self.images.append(draw_slice(axes, case, arrangement, arrangement.cut(values), colours, label))
            if axes is not panels[0]:
                axes.set_ylabel("")
                axes.tick_params(labelleft=False)
        add_colour_bar(self.figure, self.images[len(rows) // 2], panels[len(rows) // 2], symbol(quantity))
        if found is not None:
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
        for image, values in zip(self.images, self.values, strict=True):
            image.set_data(*close_circles(self.case, self.arrangement, self.arrangement.cut(values, i)))
        return self.figure

    def write(self, path: Path, frames: int, seconds: float) -> None:
        """Write at most `frames` equally spaced times."""
        last = self.times.shape[0] - 1
        chosen = np.unique(np.round(np.linspace(0, last, min(frames, last + 1))).astype(int))
        writer = PillowWriter(fps=max(1, round(chosen.shape[0] / seconds)))
        with writer.saving(self.figure, str(path), MOVIE_DPI):
            for i in chosen:
                self.show(int(i))
                writer.grab_frame()
