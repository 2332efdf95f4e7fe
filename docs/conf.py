"""Sphinx builds docs/ as HTML: ``make docs``. GitHub shows the same files as they are."""

from __future__ import annotations

import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from ssbench import __version__  # noqa: E402

project = "ssbench"
author = "the authors of ssbench"
copyright = "2013-2026, the authors of ssbench"
version = release = __version__

exclude_patterns = ["README.rst", "_build"]  # index.rst includes README.rst
highlight_language = "none"
html_theme = "alabaster"
html_theme_options = {
    "description": "A benchmark suite for OpenStack Swift and other object stores",
    "page_width": "1100px",
    "body_max_width": "none",
    "font_size": "15px",
}
html_show_sourcelink = False
smartquotes = False  # "--option" must not become a dash

log = logging.getLogger(__name__)


def linked_file(node: nodes.reference, source: str) -> tuple[Path, str] | None:
    """File and section that a link leads to; None if it isn't relative."""
    path, _, anchor = node.get("refuri", "").partition("#")
    if not path or ":" in path:
        return None
    return (Path(source).parent / path).resolve(), anchor


class FileLinks(SphinxTransform):
    """Makes links to files that are no pages (the README, a schema) downloads."""

    default_priority = 5

    def apply(self, **_: object) -> None:
        source = self.env.doc2path(self.env.docname)
        for node in list(self.document.findall(nodes.reference)):
            found = linked_file(node, source)
            if found is None or self.env.path2doc(str(found[0])) in self.env.found_docs:
                continue
            if not found[0].is_file():
                log.warning("%s: no such file", node["refuri"], location=node)
            download = addnodes.download_reference("", "", *node.children)
            download["reftarget"] = node["refuri"].partition("#")[0]
            node.replace_self(download)


class PageLinks(SphinxPostTransform):
    """Makes links to .rst files, which GitHub can follow, links to the pages made from them."""

    default_priority = 5

    def run(self, **_: object) -> None:
        source = self.env.doc2path(self.env.docname)
        for node in self.document.findall(nodes.reference):
            found = linked_file(node, source)
            page = self.env.path2doc(str(found[0])) if found else None
            if found is None or page not in self.env.found_docs:
                continue
            path, anchor = found
            if anchor and anchor not in self.env.get_doctree(page).ids:
                log.warning("%s: no such section", node["refuri"], location=node)
            uri = self.app.builder.get_relative_uri(self.env.docname, page)
            node["refuri"] = f"{uri}#{anchor}" if anchor else uri
            if node.astext() == path.name:
                node.clear()
                node += nodes.inline("", self.env.titles[page].astext())


def setup(app: Sphinx) -> None:
    app.add_transform(FileLinks)
    app.add_post_transform(PageLinks)
