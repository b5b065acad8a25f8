"""The report page: one HTML file that opens from disk, loads nothing, and lets one play with a run.

    write_report("runs/demo", "report.html")

Texts from data are escaped here, or become text nodes in the page's script; the page's policy runs no other script.
"""

import base64
import hashlib
import re
from importlib import resources
from pathlib import Path

from fewer.errors import FewerError
from fewer.files import atomic_write
from fewer.report.collect import collect
from fewer.report.grid import make_grid
from fewer.report.page_html import about_html, escape, headline_html, table_html, warnings_html
from fewer.report.results import read_results
from fewer.version import __version__

SCRIPTS = ("data", "rank", "align", "ui", "charts", "heat", "browser", "explore", "sections", "main")


def write_report(run: str | Path, out: str | Path | None = None, paper: str | None = None) -> Path:
    """Write the page of a run folder, as RUN/report.html if no other place is named; returns the file."""
    run = Path(run)
    if not run.is_dir():
        raise FewerError(f"{run} is not a folder; give the folder of a `fewer run` or `fewer demo`")
    out = Path(out) if out is not None else run / "report.html"
    page = make_page(run, paper)
    with atomic_write(out) as stream:
        stream.write(page)
    return out


def make_page(run: Path, paper: str | None = None) -> str:
    """The page as text."""
    results = read_results(run)
    data, blob = collect(run, results)
    style = "\n" + _source("page.css")
    script = '\n"use strict";\n(() => {\n' + "\n".join(_source(f"{name}.js") for name in SCRIPTS) + "})();\n"
    fallback = "\n" + _source("fallback.js")
    parts = {
        "policy": _policy(style, fallback, script),
        "version": escape(__version__),
        "title": escape(results.title),
        "style": style,
        "headline": headline_html(results),
        "warnings": warnings_html(results),
        "table": table_html(results, make_grid(results, paper)),
        "about": about_html(results),
        "data": blob.encode(data),
        "fallback": fallback,
        "script": script,
    }
    # One pass over the template: what is put in is not looked through again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found.group(1)], _source("template.html"))


def _policy(style: str, *scripts: str) -> str:
    """Nothing is loaded from anywhere, and of inline scripts and styles only the page's own take effect."""
    own = " ".join(map(_hash, scripts))
    return f"default-src 'none'; script-src {own}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _source(name: str) -> str:
    return resources.files("fewer.report").joinpath("page", name).read_text(encoding="utf-8")
