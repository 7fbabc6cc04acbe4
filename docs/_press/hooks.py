"""What mkdocs does with the pages besides rendering them: it adds pages that are made from the code and from stored
results, shows the outputs of code, offers the notebooks, sets formulas as MathML, links words of our own with the
glossary, and mends links that leave the folder `docs`."""

import html
import os
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from blocks import blocks_of
from glossary import with_anchors, with_links
from latex2mathml.converter import convert
from made import made_pages, made_texts, speeds_of_pages
from mkdocs.structure.files import File
from notebooks import tutorials, written
from outputs import DOCS, read_outputs

ROOT = DOCS.parent
MATHS = re.compile(r'<(span|div) class="arithmatex">(?:\\\(|\\\[)(.*?)(?:\\\)|\\\])</\1>', re.DOTALL)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
FIGURES = "benchmarks/figures"
SPEEDS = "<!-- made: speeds of explorer pages -->"
LETTERS = {"script": 0x1D49C, "double-struck": 0x1D538}
"""Where Unicode has capital letters of these kinds; browsers leave the attribute of MathML out of account."""
HOLES = {0x1D49D: "ℬ", 0x1D4A0: "ℰ", 0x1D4A1: "ℱ", 0x1D4A3: "ℋ", 0x1D4A7: "ℒ", 0x1D4A8: "ℳ", 0x1D4AD: "ℛ", 0x1D549: "ℝ"}
"""Letters that Unicode has elsewhere."""
NAMED = re.compile(r"(<mi>(?:sin|cos|tan|exp|log|ln|min|max)</mi>)(?!<mo[^>]*>(?:&#x00028;|\())")
"""A named function without brackets: sin x, which would be set as sinx."""
MENDED = {"<mo>&#x0005E;</mo></mover>": "<mo>&#x002C6;</mo></mover>", "<mi>&#x02032;</mi>": "<mo>&#x02032;</mo>"}
"""Hats and primes: as the converter writes them, browsers set them too low or not at all."""
VARIANT = re.compile(r'<mi mathvariant="(script|double-struck)">([A-Z])</mi>')


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made here, and the pictures of the benchmarks."""
    for uri, text in made_pages().items():
        files.append(File.generated(config, uri, content=text))
    for uri, text in made_texts(config.nav).items():
        files.append(File.generated(config, uri, content=text))
    for path in sorted((ROOT / FIGURES).glob("*.*")):
        files.append(File.generated(config, f"{FIGURES}/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    uri = page.file.src_uri
    shown = _with_outputs(markdown, uri).replace(SPEEDS, speeds_of_pages())
    if uri in tutorials():
        shown += f"\n\n[This page as a notebook](../notebooks/{written(uri).name}){{ .notebook download }}\n"
    known = {file.src_uri for file in files}
    return LINK.sub(lambda link: _mended(link, uri, known), shown)


def _with_outputs(text: str, uri: str) -> str:
    """The page with what its blocks wrote and drew."""
    blocks = blocks_of(text)
    stored, parts, last = read_outputs(uri, blocks), list[str](), 0
    up = "../" * uri.count("/")
    for i, block in enumerate(blocks):
        if i not in stored:
            continue
        parts.append(text[last : block.end])
        if stored[i].text:
            parts.append(f"\n``` {{ .text .output }}\n{stored[i].text}\n```\n")
        parts += [f"\n![{block.caption or 'what the code draws'}]({up}outputs/{name})\n" for name in stored[i].figures]
        if stored[i].figures and block.caption:
            parts.append(f"\n*{block.caption}*\n")
        last = block.end
    return "".join([*parts, text[last:]])


def _mended(link: re.Match[str], uri: str, known: set[str]) -> str:
    """A link that stays on the site, whether the target is in `docs` or was made from a file outside of it; the words
    alone where the target is a file of the repository that the site does not show."""
    picture, words, target, anchor = link.groups()
    if not target or re.match(r"[a-z]+:", target):
        return link[0]
    folder = DOCS / uri
    path = Path(_normal(folder.parent / target))
    # Pages that are made from files of the repository's top folder have links from there.
    for root in (DOCS, ROOT):
        beside = Path(_normal(root / target))
        for candidate in (path, beside):
            inside = _on_site(candidate)
            if inside in known:
                up = "../" * uri.count("/")
                return f"{picture}[{words}]({up}{inside}{anchor or ''})"
    return words if not picture else ""


def _on_site(path: Path) -> str:
    """Where a file of the repository stands on the site."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    if not path.is_relative_to(ROOT):
        return ""
    inside = path.relative_to(ROOT).as_posix()
    special = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "README.md": "index.md"}
    special["benchmarks/README.md"] = "benchmarks/commands.md"
    if inside.startswith("benchmarks/tables/"):
        return inside.replace("tables/", "")
    return special.get(inside, inside)


def _normal(path: Path) -> str:
    return os.path.normpath(path)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Formulas as MathML, which browsers show without a script; the glossary's words linked from docstrings."""
    shown = MATHS.sub(lambda found: _mathml(html.unescape(found[2]), found[1] == "div"), content)
    uri = page.file.src_uri
    if uri == "glossary.md":
        return with_anchors(shown)
    return with_links(shown, "../glossary.html") if uri.startswith("reference/") else shown


def _mathml(formula: str, block: bool) -> str:
    converted = NAMED.sub(r'\1<mspace width="0.167em" />', convert(formula, display="block" if block else "inline"))
    for wrong, right in MENDED.items():
        converted = converted.replace(wrong, right)
    return VARIANT.sub(_letter, converted)


def _letter(found: re.Match[str]) -> str:
    code = LETTERS[found[1]] + ord(found[2]) - ord("A")
    return f'<mi mathvariant="normal">{HOLES.get(code, chr(code))}</mi>'
