"""The command line and the keys of recipes as pages, from the parser and the configuration classes themselves."""

import argparse
import dataclasses
import re
import textwrap
import tomllib
import typing
from pathlib import Path
from typing import Any

COMMAND_LINE = """# Command line

`seponet COMMAND --help` says the same. Exit codes: 0 is success, 1 a failure (one sentence on stderr; `--debug` shows
where it comes from), 2 a wrong call, 3 an answer that is less accurate than was asked for.
"""
RECIPE_KEYS = """# Recipe keys

A recipe is a TOML file with the tables `[model]` and `[train]`. Every key can be changed for one run:
`--set train.steps=300`, or `set={"train.steps": 300}` in Python. `quick`, `standard` and `best` are there for any PDE;
the paper's problems have recipes of their own, and `paper`. How to choose is on
[Ranks, bases, recipes](../how-to/choose.md).
"""
RECIPES = Path(__file__).parents[2] / "seponet" / "recipes"


def command_line() -> str:
    from seponet.cli.parser import make_parser

    parser = make_parser()
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    parts = [COMMAND_LINE]
    for name, command in commands.choices.items():
        parts.append(f"## `seponet {name}`\n\n{command.description}\n")
        usage = " ".join(command.format_usage().removeprefix("usage: ").split())
        parts.append(f"```text\n{_wrapped(usage)}\n```\n")
        rows = [_option(action) for action in command._actions if action.dest != "help"]
        parts.append("\n".join(["| argument | meaning |", "|---|---|", *rows]) + "\n")
        parts.append(
            "```text\n" + (command.epilog or "").partition("\n")[2].replace("  seponet", "seponet") + "\n```\n"
        )
    return "\n".join(parts)


def _wrapped(usage: str) -> str:
    return "\n".join(textwrap.wrap(usage, 76, subsequent_indent="    ", break_on_hyphens=False))


def _option(action: argparse.Action) -> str:
    names = ", ".join(f"`{name}`" for name in action.option_strings)
    metavar = action.metavar if isinstance(action.metavar, str) else None
    if action.option_strings and action.nargs != 0:
        value = metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper())
        names += f" `{value}`"
    names = names or f"`{metavar or action.dest}`"
    meaning = (action.help or "").replace("|", "\\|")
    return f"| {names.replace('|', chr(92) + '|')} | {meaning} |"


def recipe_keys() -> str:
    from seponet.nn.config import ModelConfig
    from seponet.training.config import TrainConfig

    general = tomllib.loads((RECIPES / "quick.toml").read_text())
    parts = [RECIPE_KEYS, _table("model", ModelConfig, general["model"])]
    parts.append(_table("train", TrainConfig, general["train"]))
    for field in dataclasses.fields(TrainConfig):
        kind = typing.get_type_hints(TrainConfig)[field.name]
        if dataclasses.is_dataclass(kind):
            parts.append(_table(f"train.{field.name}", kind, general["train"].get(field.name, {})))
    return "\n".join(parts)


def _table(name: str, kind: Any, general: dict[str, Any]) -> str:
    """One table of a recipe: what its docstring says of each key, its default, and its value in the general `quick`."""
    summary, _, rest = (kind.__doc__ or "").partition("**Arguments:**")
    hints = typing.get_type_hints(kind)
    keys = {field.name: field for field in dataclasses.fields(kind) if not dataclasses.is_dataclass(hints[field.name])}
    meanings = _meanings(rest)
    missing = set(keys) - set(meanings)
    if missing:
        raise ValueError(f"the docstring of {kind.__name__} says nothing of {', '.join(sorted(missing))}")
    lines = [f"## `[{name}]`\n", _text(summary).replace(f": `[{name}]`", "") + "\n"]
    lines += ["| key | default | `quick` | meaning |", "|---|---|---|---|"]
    for key, field in keys.items():
        default = field.default if field.default is not dataclasses.MISSING else field.default_factory()  # pyright: ignore[reportCallIssue]
        value = f"`{_toml(general[key])}`" if key in general else ""
        lines.append(f"| `{key}` | `{_toml(default)}` | {value} | {meanings[key]} |")
    return "\n".join(lines) + "\n"


def _meanings(text: str) -> dict[str, str]:
    """What each key means, from the list of a docstring; keys that share an entry share its text."""
    meanings: dict[str, str] = {}
    for entry in re.split(r"\n\s*- (?=`)", "\n" + text)[1:]:
        names, _, meaning = entry.partition(":")
        for name in re.findall(r"`(\w+)`", names):
            meanings[name] = _text(meaning).replace("|", "\\|")
    return meanings


def _text(text: str) -> str:
    return " ".join(text.split())


def _toml(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(entry)}" for key, entry in value.items()) + "}"
    return str(list(value)) if isinstance(value, tuple) else f'"{value}"' if isinstance(value, str) else f"{value:g}"
