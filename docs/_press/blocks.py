"""The blocks of code of a Markdown page."""

import re
import textwrap
import tomllib
from dataclasses import dataclass
from typing import Any

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```[ ]*\n?", re.DOTALL | re.MULTILINE
)
CAPTION = re.compile(r"\s*<!-- caption: (?P<caption>.*?) -->", re.DOTALL)
SMALL = re.compile(r"<!-- small: (?P<settings>\{.*?\}) -->", re.DOTALL)
COMMANDS = ("seponet", "make", "pip", "srun")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    - `language`: "python", "sh", or whatever stands after the fence; a block without one whose first word is a command
      is "sh".
    - `code`: its text.
    - `line`: the line of the page that the code begins on.
    - `start`, `end`: the characters of the page that it takes, with its caption.
    - `caption`: what its figure shows, from a comment `<!-- caption: ... -->` behind it.
    """

    language: str
    code: str
    line: int
    start: int
    end: int
    caption: str = ""


def blocks_of(text: str) -> list[Block]:
    """All fenced blocks of a page, in its order."""
    blocks: list[Block] = []
    for fence in FENCE.finditer(text):
        code = textwrap.dedent(fence["body"])
        language = fence["info"].split()[0] if fence["info"].strip() else ""
        if not language and code.split() and code.split()[0] in COMMANDS:
            language = "sh"
        caption = CAPTION.match(text, fence.end())
        blocks.append(
            Block(
                language,
                code,
                text.count("\n", 0, fence.start()) + 2,
                fence.start(),
                caption.end() if caption else fence.end(),
                " ".join(caption["caption"].split()) if caption else "",
            )
        )
    return blocks


def small_settings(text: str) -> dict[str, Any]:
    """What a page is run with in the tests, from its comment `<!-- small: {samples = 200, "train.steps" = 5} -->`:
    values of variables that it assigns, and settings of its trainings."""
    found = SMALL.search(text)
    return tomllib.loads(f"small = {found['settings']}")["small"] if found else {}
