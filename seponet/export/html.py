"""Frozen programs as one HTML page: draw the input, watch the solution. Nothing is loaded, nothing is sent."""

import base64
import hashlib
import html
from importlib.resources import files
from pathlib import Path

from .._files import write_text
from .packing import pack
from .program import Program

SCRIPTS = (
    *("runtime.js", "colours.js", "drawing.js", "shape.js", "formula.js"),
    *("editors.js", "solution.js", "explorer.js"),
)
"""The parts of the script, joined in this order; the last one starts the page."""

POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; base-uri 'none'; form-action 'none'"
)
"""What the page may do: run its own script, use its own style, and nothing else; not even a connection."""


def write_page(program: Program, path: Path) -> None:
    """Write a self-contained page that explores a program."""
    write_text(path, render_page(program))


def render_page(program: Program) -> str:
    """The page as text."""
    page = files("seponet.export").joinpath("page")
    template, style = (page.joinpath(name).read_text(encoding="utf-8") for name in ("explorer.html", "explorer.css"))
    script = "\n".join(page.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS)
    packed = pack(program)
    header = Program({**program.header, "rounded": packed.ranges}, program.numbers)
    title = f"{program.header.get('about', {}).get('title', 'Operator')}: draw and watch"
    parts = {
        "policy": POLICY.format(script=_digest(script), style=_digest(style)),
        "title": html.escape(title),
        "style": style,
        "script": script,
        # In a data block of a page only "</" could end it early.
        "program": header.to_json().replace("<", "\\u003c"),
        "numbers": base64.b64encode(packed.exact).decode(),
        "rounded": base64.b64encode(packed.rounded).decode(),
    }
    for name, text in parts.items():
        template = template.replace(f"{{{{{name}}}}}", text, 1)
    return template


def _digest(text: str) -> str:
    """How a policy names an inline script or style: browsers hash exactly what stands between the tags."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
