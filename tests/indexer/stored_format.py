"""Makes `formats/7.tar.xz`: an index of the present format that was written to.

`python -m tests.indexer.stored_format` writes it. Call it when the format of an index changes: it
writes a file with the new number. The former files stay, and every version upgrades them.
"""

import shutil
import tarfile
import tempfile
from pathlib import Path

from indexer.build import build_index
from indexer.encoding.features import open_images
from indexer.manifest import FORMAT_VERSION, LUCENE, index_folders
from indexer.update.images import delete_images, update_metadata
from server.writing.bodies import ImageBody
from server.writing.forward import Board
from server.writing.index import PhotoEncoder, WritableIndex

FORMATS = Path(__file__).parent / "formats"


def sample_photos() -> list[Path]:
    """The drawings of the package."""
    import sparta

    folder = Path(sparta.__file__).parent / "visualsparta" / "shipped" / "sample" / "photos"
    return sorted(folder.iterdir())


def make(folder: Path, shards: int | None) -> Path:
    """An index of six drawings, with fields, a deletion, and images sent as photo and as terms."""
    photos, index = folder / "photos", folder / "index"
    photos.mkdir(parents=True, exist_ok=True)
    for path in sample_photos()[:6]:
        shutil.copy(path, photos)
    names = sorted(path.name for path in photos.iterdir())
    images = open_images([photos], ["sample"], index, device="cpu")
    build_index(
        images, ["sample"], index, device="cpu", shards=shards, metadata={names[0]: {"album": "A"}}
    )
    update_metadata(index, {names[0]: {"rating": 5}, names[1]: {"album": None, "note": "mine"}})
    delete_images(index, [names[2]])
    writable = WritableIndex(index, PhotoEncoder(index_folders(index)[0], ["sample"]), Board(1))
    photo = sample_photos()[7].read_bytes()
    for image_id, sent, fields in (
        ("sent/photo.jpg", {"photo": photo}, {"album": "B"}),
        ("sent/terms", {"terms": {"dog": 2.5, "beach": 1.5}}, {"album": "C"}),
    ):
        body = {"photo": None, "features": None, "terms": None, "metadata": fields} | sent
        writable.write([writable.encode(image_id, ImageBody.model_construct(**body))])
    writable.close()
    for one in index_folders(index):
        shutil.rmtree(one / LUCENE, ignore_errors=True)
    return index


if __name__ == "__main__":
    FORMATS.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as work,
        tarfile.open(FORMATS / f"{FORMAT_VERSION}.tar.xz", "w:xz") as tar,
    ):
        for name, shards in (("whole", None), ("shards", 2)):
            tar.add(make(Path(work) / name, shards), name)
