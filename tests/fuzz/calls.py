"""Wrong calls: every setting and every argument with values that mean nothing, refused with a sentence or right."""

import argparse
import contextlib
import dataclasses
import io
import math
import random
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from seponet import nn
from seponet.cli import COMMANDS
from seponet.cli.parser import make_parser, parse
from seponet.operator.operator import Operator
from seponet.problems import Heat
from seponet.training.recipe import Recipe, flat

from .flips import SMALL, outcome, run_command
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

ODD: tuple[Any, ...] = (
    *(
        -1,
        0,
        10**21,
        1.5,
        -(10.0**300),
        float("nan"),
        float("inf"),
        "",
        "a",
        "\x00",
        b"a",
        [],
        ["a", 1],
        {},
        {"t": None},
    ),
    *(1j, np.array([1, 2]), np.array("a"), object(), np.datetime64("2020"), len),
)
"""Values that no argument has."""

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


def call_settings(numbers: random.Random, times: int, until: float = math.inf) -> Tally:
    """Every key of a recipe with every nonsense: a recipe that is made can be written and read back."""
    tally = Tally("settings")
    cases = [(key, value) for key in flat(Recipe().to_dict()) for value in NONSENSE]
    for key, value in numbers.sample(cases, min(times, len(cases))):
        if time.monotonic() > until:
            break

        def change(key: str = key, value: Any = value) -> str:
            made = Recipe().changed({key: value})
            finite = all(v == v and abs(v) <= 1e12 for v in flat(made.to_dict()).values() if isinstance(v, int | float))
            return "harmless" if finite and dataclasses.is_dataclass(made) else f"accepted {value!r:.60}"

        tally.count(outcome(change), f"{key} = {value!r:.60}")
    return tally


def call_operator(numbers: random.Random, times: int, until: float = math.inf) -> Tally:
    """`predict` with every nonsense for the input and for the coordinates."""
    tally = Tally("arguments of predict")
    operator = Operator(nn.build(Heat(), key=jax.random.key(0), sensors=8, **SMALL))
    right = np.sin(np.pi * np.linspace(0, 1, 8))
    where: dict[str, Any] = {"t": 0.5, "x": 0.5}
    cases = [({"u": value}, where) for value in ARRAYS]
    cases += [({"u": right}, {**where, axis: value}) for axis in ("t", "x") for value in POINTS]
    cases += [({"u": right}, {**where, "derivative": d}) for d in ("s_" + "x" * 40, "u", "", "s_q", ("s", "s_x_x"))]
    cases += [({"u": right}, {**where, name: v}) for name in ("derivative", "field", "memory") for v in ODD]
    for given, coordinates in numbers.sample(cases, min(times, len(cases))):
        if time.monotonic() > until:
            break

        def predict(given: Any = given, coordinates: Any = coordinates) -> str:
            predicted = operator.predict(given["u"], **coordinates)
            return "harmless" if bool(np.all(np.isfinite(predicted.to_numpy()))) else "not finite"

        tally.count(outcome(predict), f"{given['u']!r:.40} {coordinates!r:.60}")
    return tally


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


FIRST = {"train": ["heat"], "solve": ["heat"], "reference": ["heat"], "export": ["run", "s.npz"], "list": []}
"""What stands before the flags of a command; a folder for the others."""


def flags_of(command: str) -> list[str]:
    """Every flag of a command that takes a value."""
    (commands,) = (a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))
    actions = commands.choices[command]._actions
    return [a.option_strings[-1] for a in actions if a.option_strings and a.nargs != 0]


def call_methods(numbers: random.Random, times: int, until: float = math.inf) -> Tally:
    """The other methods of an operator with every nonsense for their own arguments: a sentence."""
    tally = Tally("arguments of other methods")
    operator = Operator(nn.build(Heat(), key=jax.random.key(0), sensors=8, **SMALL))
    u = np.sin(np.pi * np.linspace(0, 1, 8))
    calls = {
        "residual(nodes)": lambda v: operator.residual(u, nodes=v),
        "residual(nodes by axis)": lambda v: operator.residual(u, nodes={"t": v, "x": v}),
        "solve(rtol)": lambda v: operator.solve(u, v, t=0.5, x=0.5),
        "error(level)": lambda v: operator.error(u, level=v),
        "advance(t)": lambda v: operator.advance(u, t=v, x=0.5),
        "basis": operator.basis,
        "calibrate": operator.calibrate,
        "evaluate": lambda v: operator.evaluate(v, t=0.5, x=0.5),
    }
    # What is a right value of one of them by chance is left out.
    right = {"advance(t)": ("0", "1.5", "array([1, 2])")}
    cases = [(name, value) for name in calls for value in ODD if repr(value) not in right.get(name, ())]
    for name, value in numbers.sample(cases, min(times, len(cases))):
        if time.monotonic() > until:
            break

        def attempt(name: str = name, value: Any = value) -> str:
            calls[name](value)
            return "accepted"

        tally.count(outcome(attempt), f"{name} with {value!r:.40}")
    return tally


def call_flags(numbers: random.Random, times: int, until: float = math.inf) -> Tally:
    """Every flag of every command with every nonsense: parsed to something finite, or a wrong call with code 2."""
    tally = Tally("flags")
    commands = [name for name in COMMANDS if name != "bench"]
    cases = [(command, flag, text) for command in commands for flag in flags_of(command) for text in TEXTS]
    for command, flag, text in numbers.sample(cases, min(times, len(cases))):
        if time.monotonic() > until:
            break
        last = ["--output", "s.nc"] if command in ("solve", "predict") else []
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                parsed = parse([command, *FIRST.get(command, ["run"]), f"{flag}={text}", *last])
            values = [v for v in vars(parsed).values() if isinstance(v, int | float)]
            fine = all(math.isfinite(v) and abs(v) < 2**63 for v in values)
            tally.count("harmless" if fine else f"accepted {values}", f"{command} {flag}={text}")
        except SystemExit as end:
            right = end.code == 2 and "error:" in said.getvalue()
            tally.count("refused" if right else f"code {end.code}", f"{command} {flag}={text}")
        except Exception as error:
            tally.count(f"{type(error).__name__}: {error}", f"{command} {flag}={text!r:.40}")
    return tally


def call_commands(run: Path, folder: Path, numbers: random.Random, times: int, until: float = math.inf) -> Tally:
    """Commands on a run, to their end, with every nonsense for every flag and place: an answer, or one sentence."""
    tally, out = Tally("commands"), folder / "out"
    out.mkdir()
    calls = {
        "evaluate": [str(run)],
        "predict": [str(run), "--output", str(out / "s.nc")],
        "solve": [str(run), "--output", str(out / "s.nc"), "--overwrite"],
        "export": [str(run), str(out / "s.npz"), "--overwrite"],
        "explore": [str(run), "--no-open", "--out", str(out / "s.html")],
        "info": [str(run)],
        "plot": [str(run)],
    }
    texts = (*TEXTS, "nowhere", "/dev/null", "/", str(run / "config.toml"), "s.exe", "os:path", "1e3", "x=-")
    cases = [
        (command, None, i, text) for command, args in calls.items() for i in (0, 2) for text in texts if i < len(args)
    ]
    cases += [(command, flag, 0, text) for command in calls for flag in flags_of(command) for text in texts]
    for command, flag, place, text in numbers.sample(cases, min(times, len(cases))):
        if time.monotonic() > until:
            break
        arguments = list(calls[command])
        if flag is None:
            arguments[place] = text
        call = [command, *arguments, *([] if flag is None else [f"{flag}={text}"])]

        def attempt(call: list[str] = call) -> str:
            code, _, said = run_command(call)
            lines = said.strip().splitlines()
            if code == 2 and "error:" in said:
                return "refused"
            if code not in (0, 1, 3) or "unexpected" in said or (code == 1 and len(lines) != 1):
                return f"code {code}: {said[-300:]}"
            return "harmless" if code == 0 else "refused"

        tally.count(outcome(attempt), " ".join(f"{word!r:.40}" for word in call))
    return tally
