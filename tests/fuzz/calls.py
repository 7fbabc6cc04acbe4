"""Wrong calls: every setting and every argument with values that mean nothing, refused with a sentence or right."""

import dataclasses
import random
from typing import Any

import jax
import numpy as np

from seponet import nn
from seponet.cli.parser import parse
from seponet.operator.operator import Operator
from seponet.problems import Heat
from seponet.training.recipe import Recipe, flat

from .flips import SMALL, outcome
from .table import Tally

NONSENSE: tuple[Any, ...] = (
    *(
        -1,
        0,
        10**21,
        -(10**21),
        1.5,
        -1.5,
        float("nan"),
        float("inf"),
        -float("inf"),
        True,
        "",
        "nan",
        "\x00",
        "é" * 300,
    ),
    *([], [[]], {}, {"a": {"b": {"c": 1}}}, {"t": -1}, {"t": float("nan")}, ["x"] * 100, {"": ""}),
)

ARRAYS: tuple[Any, ...] = (
    *(None, "u", b"u", np.array("u"), np.array(["u"] * 8), np.datetime64("2020"), np.zeros((8, 8, 8, 8)), np.zeros(0)),
    *(
        np.full(8, np.nan),
        np.full(8, np.inf),
        np.zeros(8, complex),
        np.zeros(8, [("a", float)]),
        object(),
        {},
        {"v": 1},
    ),
    *([], [1, "a"], np.ma.masked_all(8), lambda: 1, lambda x: x * 1j, lambda x: "a", lambda x: x[:2], np.zeros((0, 8))),
    *(np.array([None] * 8), np.zeros(8, "m8[s]"), {"u": {"u": 1}}, np.float64(3), np.full(8, 1e308)),
)

POINTS: tuple[Any, ...] = (
    *(
        "a",
        [],
        [[0.5]],
        np.nan,
        [np.inf],
        -5,
        7,
        None,
        {},
        1j,
        [0.1, "x"],
        np.datetime64("2020"),
        np.broadcast_to(0.5, 10**13),
    ),
)


def call_settings(numbers: random.Random, times: int) -> Tally:
    """Every key of a recipe with every nonsense: a recipe that is made can be written and read back."""
    tally = Tally("settings")
    cases = [(key, value) for key in flat(Recipe().to_dict()) for value in NONSENSE]
    for key, value in numbers.sample(cases, min(times, len(cases))):

        def change(key: str = key, value: Any = value) -> str:
            made = Recipe().changed({key: value})
            finite = all(v == v and abs(v) <= 1e12 for v in flat(made.to_dict()).values() if isinstance(v, int | float))
            return "harmless" if finite and dataclasses.is_dataclass(made) else f"accepted {value!r:.60}"

        tally.count(outcome(change), f"{key} = {value!r:.60}")
    return tally


def call_operator(numbers: random.Random, times: int) -> Tally:
    """`predict` with every nonsense for the input and for the coordinates."""
    tally = Tally("arguments of predict")
    operator = Operator(nn.build(Heat(), key=jax.random.key(0), sensors=8, **SMALL))
    right = np.sin(np.pi * np.linspace(0, 1, 8))
    where: dict[str, Any] = {"t": 0.5, "x": 0.5}
    cases = [({"u": value}, where) for value in ARRAYS]
    cases += [({"u": right}, {**where, axis: value}) for axis in ("t", "x") for value in POINTS]
    cases += [({"u": right}, {**where, "derivative": d}) for d in ("s_" + "x" * 40, "u", "", "s_q", ("s", "s_x_x"))]
    for given, coordinates in numbers.sample(cases, min(times, len(cases))):

        def predict(given: Any = given, coordinates: Any = coordinates) -> str:
            predicted = operator.predict(given["u"], **coordinates)
            return "harmless" if bool(np.all(np.isfinite(predicted.to_numpy()))) else "not finite"

        tally.count(outcome(predict), f"{given['u']!r:.40} {coordinates!r:.60}")
    return tally


FLAGS = {
    "train": ("--seed", "--functions", "--budget", "--set", "--recipe", "--config"),
    "solve": ("--tolerance", "--grid", "--set"),
    "predict": ("--grid",),
    "evaluate": ("--functions", "--reference"),
}
TEXTS = (
    "",
    "-1",
    "nan",
    "1e400",
    "9" * 40,
    "--",
    "=",
    "a=b=c",
    "t=0",
    "t=-1,x=2",
    "[",
    "{",
    "\x00",
    "é",
    "t=" + "9" * 30,
)


def call_flags(numbers: random.Random, times: int) -> Tally:
    """Every flag with every nonsense: parsed, or a wrong call with code 2."""
    import contextlib
    import io

    tally = Tally("flags")
    cases = [(command, flag, text) for command, flags in FLAGS.items() for flag in flags for text in TEXTS]
    for command, flag, text in numbers.sample(cases, min(times, len(cases))):
        first = ["heat"] if command in ("train", "solve") else ["run"]
        last = ["--output", "s.nc"] if command in ("solve", "predict") else []
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                parse([command, *first, f"{flag}={text}", *last])
            tally.count("harmless", "")
        except SystemExit as end:
            tally.count(
                "refused" if end.code == 2 and "error:" in said.getvalue() else f"code {end.code}", f"{flag}={text}"
            )
        except Exception as error:
            tally.count(f"{type(error).__name__}: {error}", f"{command} {flag}={text!r:.40}")
    return tally
