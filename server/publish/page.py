"""The page of a site: the server's, whose requests an index of plain files answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from urllib.parse import urljoin

from server.publish.folder import SiteFolder, digest
from server.publish.terms import as_json

OWN = Path(__file__).parent
PAGE = OWN.parent / "page"
# As the server's header has it; a page cannot say who may show it in a frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "worker-src 'self'; base-uri 'none'; form-action 'self'"
)
_NOSCRIPT = re.compile(r"<noscript>.*?</noscript>", re.DOTALL)
# Scripts that the server's module `with_server.js` alone imports.
OF_A_SERVER = {"page/search_by_file.js", "page/sign_in.js"}
# Fetched by the first filter, and not before.
LATER = {"search/dates.js", "search/fields.js", "search/filter.js"}
_CHARSET = '<meta charset="utf-8">\n'


def write_page(site: SiteFolder, first: Sequence[str], base_url: str | None = None) -> None:
    """Write the page, and the service worker that keeps it.

    Args:
        site: the folder.
        first: files of the index that the first query needs, as `write_index` returns them.
        base_url: where the site will be, for search engines and previews of links.
    """
    files = {f"page/{path.relative_to(PAGE)}": path for path in PAGE.rglob("*") if path.is_file()}
    files |= {f"search/{path.name}": path for path in (OWN / "search").glob("*.js")}
    own = ("api.js", "opened.js", "with_server.js")
    files |= {f"page/{name}": OWN / "site" / name for name in own}
    contents = {path: files[path].read_bytes() for path in sorted(files) if _is_of_site(path)}
    scripts = [path for path in contents if path.endswith(".js") and path not in LATER]
    scripts.sort(key=lambda path: path.startswith("page/"))  # what opens the index first
    contents["index.html"] = _html(scripts, first, base_url)
    for path, content in contents.items():
        site.put(path, content)
    version = digest(b"".join(digest(content).encode() for content in contents.values()))
    listed = ["./", *contents]
    head = b"const VERSION = %s;\nconst PAGE = %s;\n" % (as_json(version), as_json(listed))
    site.put("sw.js", head + (OWN / "site" / "sw.js").read_bytes())


def _is_of_site(path: str) -> bool:
    """Whether a file of the page is of use without a server."""
    script_of_writing = path.startswith("page/write/") and path.endswith(".js")
    return not script_of_writing and path not in {"page/index.html", *OF_A_SERVER}


def _html(scripts: Sequence[str], first: Sequence[str], base_url: str | None) -> bytes:
    """The page with a content security policy; scripts and first files are fetched all at once."""
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    lines = [f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">']
    lines += [f'<link rel="modulepreload" href="{path}">' for path in scripts]
    lines += [f'<link rel="preload" as="fetch" crossorigin href="{path}">' for path in first]
    lines.append('<script type="module" async src="page/opened.js"></script>')
    if base_url:
        url = escape(urljoin(base_url.rstrip("/") + "/", "."))
        lines += [
            f'<link rel="canonical" href="{url}">',
            f'<meta property="og:url" content="{url}">',
            '<meta property="og:type" content="website">',
            '<meta property="og:title" content="Photos, searched in plain words">',
        ]
    added = "".join(f"  {line}\n" for line in lines)
    text = text.replace(_CHARSET, _CHARSET + added, 1)
    return _NOSCRIPT.sub("<noscript>This page needs JavaScript.</noscript>", text).encode()
