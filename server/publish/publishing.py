"""Publishes an index folder as a site."""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from urllib.parse import urljoin

from indexer.fields.kinds import CAMERA, LOCATION, read_kinds, with_derived
from indexer.manifest import Manifest, located
from server.photo_files import find_photo
from server.problems import ProblemError
from server.publish.collection import Collection, open_collection
from server.publish.folder import SiteFolder, digest
from server.publish.index import write_index
from server.publish.packs import Shown, as_json
from server.publish.photos import Pictures, publish_photos
from sparta.errors import InputError
from sparta.extract.image_files import PhotoError
from sparta.features.record import Skipped
from sparta.files import writing
from sparta.json_values import JsonMapping
from sparta.progress import Progress, no_progress

DERIVED = {CAMERA: ("make", "model"), LOCATION: ("latitude", "longitude")}  # and what from
ALWAYS = ("width", "height")  # fields without which photos would jump while they load
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
# Fetched by the first filter, suggestion or misspelt word, and not before.
LATER = {"search/fields.js", "search/filter.js", "search/words.js"}
_CHARSET = '<meta charset="utf-8">\n'


@dataclass(frozen=True)
class Choices:
    """What is published of an index."""

    # The folder that ids are relative to; None for the one that the index names
    photos: Path | None = None
    pictures: Pictures | None = None  # of each photo; None for none
    fields: tuple[str, ...] = ()  # of the metadata, beside width and height
    # Under which ids are published as hashes; None for the ids themselves
    id_key: str | None = None
    examples: tuple[str, ...] = ()  # queries to offer
    base_url: str | None = None  # where the site will be


@dataclass
class Report:
    """What was published."""

    images: int = 0  # their number
    # Those whose photo cannot be used, and why
    skipped: list[Skipped] = field(default_factory=list)
    # Fields of the metadata that are not published
    withheld: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)  # bytes of each file by its path
    # Paths of those that were not there before, or were different
    rewritten: list[str] = field(default_factory=list)
    # Paths of those that are no longer part of the site
    removed: list[str] = field(default_factory=list)


def publish(index: Path, out: Path, choices: Choices, progress: Progress = no_progress) -> Report:
    """Write an index folder as a site of plain files, or what changed since it was written.

    `out` is missing, empty, or a site published before. Stages of the progress are "terms",
    "photos" and "records".

    Raises InputError if the index cannot be published, no image has a field that is to be, or `out`
    has something else.
    """
    index = located(index)
    with writing(out):
        collection = open_collection(index, progress)
        site = SiteFolder(out)
        report = Report(len(collection))
        report.withheld = _withheld(collection, choices.fields)
        images = _shown(index, collection, site, choices, report, progress)
        pictures = choices.pictures or Pictures(())
        kind = {"sizes": pictures.sizes, "suffix": f".{pictures.format}"}
        named = sorted({one.photo.partition(".")[0] for one in images if one.photo})
        names = named and site.put_named("index/pictures", bytes.fromhex("".join(named)))
        first = write_index(
            site,
            collection,
            images.__getitem__,
            kinds=read_kinds(index),
            paths=choices.id_key is None,
            about={
                "pictures": {**kind, "originals": pictures.originals, "names": names or None},
                "examples": choices.examples,
            },
            progress=progress,
        )
        write_page(site, first, choices.base_url)
        report.removed = site.finish()
        report.sizes, report.rewritten = site.sizes, site.rewritten
        return report


def _shown(
    index: Path,
    collection: Collection,
    site: SiteFolder,
    choices: Choices,
    report: Report,
    progress: Progress,
) -> list[Shown]:
    """What is published of each document; its pictures are written."""
    metadata = [collection.metadata(document) for document in range(len(collection))]
    names: list[str | None] = [None] * len(collection)
    if choices.pictures:
        recorded = Manifest.open(index).photos
        folder = choices.photos or (Path(recorded) if recorded else None)
        files = (
            (_file(index, folder, image_id, own), _longer(own))
            for image_id, own in zip(collection.ids, metadata, strict=True)
        )
        names = []
        for name in publish_photos(site, files, choices.pictures):
            if isinstance(name, PhotoError):
                report.skipped.append(Skipped(collection.ids[len(names)], str(name)))
            names.append(name if isinstance(name, str) else None)
            progress("photos", len(names), len(collection))
    return [
        Shown(
            _published_id(image_id, choices.id_key),
            {
                key: value
                for key, value in with_derived(image_id, own).items()
                if key in (*ALWAYS, *choices.fields) and value is not None
            },
            name,
        )
        for image_id, own, name in zip(collection.ids, metadata, names, strict=True)
    ]


def _file(
    index: Path, folder: Path | None, image_id: str, metadata: JsonMapping
) -> Path | PhotoError:
    try:
        return find_photo(folder, index, image_id, metadata)[0]
    except ProblemError as error:
        return PhotoError(error.detail)


def _longer(metadata: JsonMapping) -> int | None:
    sides = [side for name in ALWAYS if isinstance(side := metadata.get(name), int)]
    return max(sides) if len(sides) == len(ALWAYS) else None


def _published_id(image_id: str, key: str | None) -> str:
    if key is None:
        return image_id
    return hmac.digest(key.encode(), image_id.encode("utf-8", "surrogatepass"), "sha256").hex()[:16]


def _withheld(collection: Collection, fields: Sequence[str]) -> list[str]:
    """The fields of the metadata that are not published.

    Raises InputError if no image has one that is to be published.
    """
    known = {name for document in range(len(collection)) for name in collection.metadata(document)}
    offered = known | {name for name, parts in DERIVED.items() if not known.isdisjoint(parts)}
    if missing := [name for name in fields if name not in offered]:
        there = ", ".join(sorted(offered)) or "none"
        raise InputError(f"--field {missing[0]}: no image has it; there is {there}")
    return sorted(known - {*fields, *ALWAYS})


def write_page(site: SiteFolder, first: Sequence[str], base_url: str | None = None) -> None:
    """Write the page, and the service worker that keeps it.

    `first` are the files of the index that the first query needs; `base_url` is for search engines
    and previews of links.
    """
    files = {f"page/{path.relative_to(PAGE)}": path for path in PAGE.rglob("*") if path.is_file()}
    files |= {f"search/{path.name}": path for path in (OWN / "search").glob("*.js")}
    own = ("api.js", "opened.js", "with_server.js")
    files |= {f"page/{name}": OWN / "site" / name for name in own}
    # What writes to a server or signs in to one has no use without it.
    needless = {path for path in files if path.startswith("page/write/") and path.endswith(".js")}
    needless |= {"page/index.html", *OF_A_SERVER}
    contents = {path: files[path].read_bytes() for path in sorted(files.keys() - needless)}
    scripts = [path for path in contents if path.endswith(".js") and path not in LATER]
    scripts.sort(key=lambda path: path.startswith("page/"))  # what opens the index first
    contents["index.html"] = _html(scripts, first, base_url)
    for path, content in contents.items():
        site.put(path, content)
    version = digest(b"".join(digest(content).encode() for content in contents.values()))
    listed = ["./", *contents]
    head = b"const VERSION = %s;\nconst PAGE = %s;\n" % (as_json(version), as_json(listed))
    site.put("sw.js", head + (OWN / "site" / "sw.js").read_bytes())


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
