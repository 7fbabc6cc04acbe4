"""What the code of a page wrote and drew at full size: stored beside the page, shown below its blocks.

    python docs/_press/outputs.py docs/tutorials/conditions.md      # run a page and store its outputs: `make outputs`

Outputs are `docs/outputs/<page>.json` and pictures beside it. They are bound to the code by a digest: a page whose code
has changed since can't be built until it has been run again."""

import argparse
import ast
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from blocks import Block, blocks_of
from session import Session

DOCS = Path(__file__).parent.parent
FOLDER = DOCS / "outputs"
LONGEST = 40
"""Lines of an output that are kept."""


@dataclass(frozen=True)
class Stored:
    """The stored output of one block: its text, and the file names of its pictures."""

    text: str
    figures: tuple[str, ...]


def name_of(page: str) -> str:
    """The name under which the outputs of a page are stored: `tutorials/conditions.md` gives `tutorials-conditions`."""
    return page.removesuffix(".md").replace("/", "-")


def digest(blocks: Sequence[Block]) -> str:
    """Of all Python of a page: what one block gives depends on those before it. Layout and comments don't matter."""
    code = "\n".join(block.code for block in blocks if block.language == "python")
    return hashlib.sha256(ast.dump(ast.parse(code)).encode()).hexdigest()[:16]


def read_outputs(page: str, blocks: Sequence[Block]) -> dict[int, Stored]:
    """The outputs of a page by the number of the block, none if it has not been run; an error if its code has changed
    since."""
    path = FOLDER / f"{name_of(page)}.json"
    if not path.exists():
        return {}
    stored = json.loads(path.read_text())
    if stored["code"] != digest(blocks):
        raise ValueError(f"docs/{page} has other code than what its outputs are of: make outputs PAGE=docs/{page}")
    return {int(i): Stored(entry["text"], tuple(entry["figures"])) for i, entry in stored["outputs"].items()}


def write_outputs(page: str) -> None:
    """Run a page at full size, in an empty folder, and store what it gives."""
    import jax

    import seponet

    blocks = blocks_of((DOCS / page).read_text())
    began, outputs = time.perf_counter(), dict[str, Any]()
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob(f"{name_of(page)}-[0-9]*.png"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        session = Session(Path(folder))
        for i, block in enumerate(blocks):
            if block.language != "python":
                continue
            output = session.run(block, page)
            names = [f"{name_of(page)}-{i}-{k}.png" for k in range(len(output.figures))]
            for name, figure in zip(names, output.figures, strict=True):
                (FOLDER / name).write_bytes(figure)
            lines = [line.rstrip() for line in output.text.rstrip().splitlines()]
            if len(lines) > LONGEST:
                lines = [*lines[:LONGEST], "..."]
            if lines or names:
                outputs[str(i)] = {"text": "\n".join(lines), "figures": names}
    about = {"seconds": round(time.perf_counter() - began), "seponet": seponet.__version__, "jax": jax.__version__}
    stored = {"code": digest(blocks), **about, "cores": len(os.sched_getaffinity(0)), "outputs": outputs}
    (FOLDER / f"{name_of(page)}.json").write_text(json.dumps(stored, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("page", nargs="+", type=Path, help="docs/tutorials/conditions.md, ...")
    import matplotlib as mpl

    mpl.use("Agg")
    for page in parser.parse_args().page:
        write_outputs(page.resolve().relative_to(DOCS).as_posix())
        print(f"{page}: done")


if __name__ == "__main__":
    main()
