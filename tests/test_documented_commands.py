"""Every command line of README.md and docs/ runs: page by page, in order, on a few drawings.

Each page has a home: a folder with tiny stand-ins for what the page takes as given. Hub models are
random networks in a cache of the hub under their real names. The Ray cluster's page runs with the
other tests on a cluster, in `tests/sparta/extract/test_job_on_cluster.py`.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, closing
from functools import partial
from pathlib import Path
from typing import Any

import bm25s
import pytest
import torch

from indexer.engines.open import open_index
from indexer.milvus.push import follow
from server.security.keys import default_file, new_key, write_keys
from sparta.adapt.sentences import generated_sentences
from sparta.features.store import FeatureStore
from sparta.model_id import SAMPLE, _on_hub
from tests.documents import PAGES, ROOT, code_blocks, commands, inline_commands, name
from tests.eval.recall import test_cxc as cxc
from tests.eval.test_figures import write_run
from tests.indexer.command_line import sparta, sparta_here
from tests.indexer.commands import test_embeddings as embeddings
from tests.indexer.tiny import save_model
from tests.indexer.vocabulary import TOKENIZER
from tests.milvus_server import milvus_server
from tests.s3_server import upload
from tests.scenes.corpus import write_queries, write_scenes
from tests.scenes.regions import regions
from tests.server.apps import make_certificate, make_key
from tests.sparta import test_captions as captions
from tests.sparta import test_immich as immich
from tests.sparta.extract import tiny_networks
from tests.sparta.readers import samples
from tests.sparta.visualsparta.test_init import oscar_weights, write_oscar
from tests.sparta.vse.models import save_bert
from tests.training.encoders import clip

CLUSTER = "docs/scale.md"
TEXTS = ["a brown dog", "two men run", "a red ball by the sea", "a man in a hat", "a green tree"]

# ---- in place of the hub ------------------------------------------------------------------------


def network(kind: str) -> Callable[[Path], object]:
    return lambda folder: tiny_networks.save(tiny_networks.NETWORKS[kind](), folder)


BERT = partial(save_bert, max_position_embeddings=80)
HUB: dict[str, Callable[[Path], object]] = {
    "bert-base-uncased": BERT,
    "sentence-transformers/all-MiniLM-L6-v2": BERT,
    "openai/clip-vit-base-patch32": clip,
    "PekingU/rtdetr_r50vd": partial(tiny_networks.save_detector, family="rt-detr"),
    "hustvl/yolos-tiny": partial(tiny_networks.save_detector, family="yolos"),
    "google/vit-base-patch16-224": network("vit"),
    "timm/resnext101_32x8d.fb_wsl_ig1b_ft_in1k": network("resnet"),
    **{f"microsoft/resnet-{depth}": network("resnet") for depth in (50, 101, 152)},
}


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of the hub that has every model which the pages name."""
    cache, commit = tmp_path_factory.mktemp("hub"), "0" * 40
    for model, write in HUB.items():
        folder = cache / f"models--{model.replace('/', '--')}"
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text(commit)
        (folder / "snapshots").mkdir()
        write(folder / "snapshots" / commit)
    return cache


# ---- tools of the shell, in the lines of `BEFORE` ------------------------------------------------


def copy(*words: str) -> None:
    *_, source, target = words
    if not Path(source).is_dir():
        shutil.copy(source, target)
    elif not Path(target).exists():  # two lines of a page may begin so
        shutil.copytree(source, target)


TOOLS: dict[str, Callable[..., object]] = {
    "cp": copy,
    "mkdir": lambda *words: Path(words[-1]).mkdir(parents=True, exist_ok=True),
    "rm": lambda *words: shutil.rmtree(words[-1]),
}

# ---- homes --------------------------------------------------------------------------------------


class Home:
    """The folder in which the lines of a page run, and what stands for some of their words.

    Services of the stack end with the page.
    """

    def __init__(self, page: str, folder: Path, stack: ExitStack) -> None:
        self.page, self.folder, self.stack = page, folder, stack
        self.words = {"MINILM_FOLDER": "bert", "OUTPUT": "bert", "…": ""}

    def run(self, text: str | list[str]) -> None:
        """Run one line, which must succeed."""
        line = shlex.split(text) if isinstance(text, str) else text
        more = [own for start, own in APPENDED.items() if re.match(start, " ".join(line))]
        words = [*(word for part in line for word in self._expand(part)), *" ".join(more).split()]
        if words[0] in TOOLS:
            TOOLS[words[0]](*words[1:])
            return
        done = sparta(*words) if words[0] == "mcp" else sparta_here(*words)
        wanted = 130 if "--follow" in words else 0  # 130: interrupted
        assert done.returncode == wanted, f"{self.page}: sparta {shlex.join(line)}: {done.stderr}"

    def _expand(self, word: str) -> list[str]:
        """What the shell makes of a word, and what stands for it here."""
        word = re.sub(r"^~/", f"{self.folder}/", word)
        for old, new in self.words.items():
            word = word.replace(old, new)
        found = sorted(map(str, Path().glob(word))) if "*" in word else []
        return found or [word][: len(word)]


def train_here(run: Path, presets: Sequence[str], settings: Sequence[str]) -> None:
    """In the place of a process for each run of a table."""
    preset = run.parent / "preset.yaml"
    preset.parent.mkdir(parents=True, exist_ok=True)
    preset.write_text(json.dumps({"extends": [*presets]}))
    sets = [word for one in settings for word in ("--set", one)]
    done = sparta_here("train", str(preset), "--out", str(run), *sets)
    assert done.returncode == 0, done.stderr


def interrupt(_: float) -> None:
    raise KeyboardInterrupt


def copy_drawings(folder: str, names: Iterable[str]) -> None:
    for drawing, own in zip(sorted((SAMPLE / "photos").iterdir()), names, strict=False):
        Path(folder, own).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(drawing, Path(folder, own))


# ---- what pages take as given --------------------------------------------------------------------


def pictures(_: Home) -> None:
    """The user's folder of photos, and what an album says of one."""
    names = ["2024/beach/1.jpg", "2024/beach/blurred.jpg", "beach/1.jpg", "beach/2.jpg"]
    copy_drawings("Pictures", [*names, "beach/two dogs.jpg", "raw/one.jpg"])
    album = '{"image": "beach/1.jpg", "rating": 4, "camera": "Canon", "taken": "2024-07-01"}'
    Path("albums.jsonl").write_text(album)
    Path("photos").symlink_to("Pictures")


def indexed(home: Home) -> None:
    pictures(home)
    home.run("index ~/Pictures --model sample --out index --metadata albums.jsonl")


def operated(home: Home) -> None:
    """A certificate, a file of settings, and a key that the page names."""
    indexed(home)
    make_certificate(home.folder)[0].rename("chain.pem")
    [settings] = code_blocks(ROOT / home.page, "yaml")
    settings = settings.replace("/var/lib/visualsparta/", "").replace("/srv/photos", "Pictures")
    Path("serve.yaml").write_text(settings)
    default_file().parent.mkdir(parents=True)
    key, _ = new_key("former", "search")
    write_keys(default_file(), [key.model_copy(update={"id": "1f0c92ab"})])


def pushed(home: Home) -> None:
    indexed(home)
    home.words["milvus://127.0.0.1:19530"] = home.stack.enter_context(milvus_server(home.folder))


def captioned(_: Home) -> None:
    """Photos with captions, in two splits; sentences, queries, and networks in folders."""
    splits = dict.fromkeys("abcdef", "train") | dict.fromkeys("ghij", "val")
    copy_drawings("photos", [f"{one}.jpg" for one in splits])
    copy_drawings("val", [f"{one}.jpg" for one in splits if splits[one] == "val"])
    Path("Pictures").symlink_to("photos")
    lines = [{"image": f"{one}.jpg", "split": splits[one], "captions": TEXTS} for one in splits]
    Path("captions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for file in ("sentences.txt", "queries.txt", "coco-val2017-captions.txt"):
        Path(file).write_text("\n".join(TEXTS * 2))
    BERT(Path("bert"))
    network("resnet")(Path("mobilenet_v2_1.0_224"))
    Path("regions").mkdir()
    for split in ("train", "val"):
        images = samples.random_images(one for one in splits if splits[one] == split)
        samples.write_vinvl(Path("regions", split), images)


def foreign(home: Home) -> None:
    """A detector in a folder, an adapted CLIP, embeddings, and an immich."""
    captioned(home)
    tiny_networks.save_detector(Path("detr"))
    home.run("adapt openai/clip-vit-base-patch32 --sentences sentences.txt --out adapted")
    Path("embeddings_folder").mkdir()
    embeddings.write(Path("embeddings_folder"), "clip-retrieval")
    home.words["vectors.npy"] = str(embeddings.write(Path(), "npy"))
    red = immich.picture("red")
    library = immich.StubImmich({immich.ONE: immich.StubAsset("red.jpg", red, red)})
    home.words["http://localhost:2283"] = home.stack.enter_context(immich.running(library.app()))


def with_scenes(home: Home) -> None:
    """Three corpora of drawings, as `python -m tests.scenes` writes them, but fewer."""
    captioned(home)
    sets = {"scenes": (10, "train=0.6,val=0.4"), "test": (4, "test"), "transfer": (4, "test")}
    for seed, (folder, (count, split)) in enumerate(sets.items()):
        write_scenes(Path(folder), count, seed, split)
        write_queries(Path(folder), 4, seed)


def mounted(home: Home) -> None:
    """Photos and a key on a network disk, photos and features in a bucket, a model of these."""
    pictures(home)
    shutil.copytree("Pictures", "mnt/photos")
    make_key(Path("mnt/keys.json"))
    home.words["/mnt"] = f"{home.folder}/mnt"
    upload(home.folder / "Pictures", "photos")
    home.run("extract ~/Pictures --backbone efficientnet-lite2 --out ready")
    upload(home.folder / "ready", "features")
    save_model(Path("model"), TOKENIZER, source=FeatureStore.open(Path("ready")).source)
    copy_drawings("Pictures", [f"more/{number}.jpg" for number in range(12)])  # for four shards


def drawn(home: Home) -> None:
    """A few drawings as a detector sees them, and what the package has."""
    home.words["sparta/visualsparta/shipped"] = str(SAMPLE.parent)
    write_scenes(Path("paper/scenes"), 10, 0, "train=0.6,val=0.4")
    regions(Path("paper/scenes"), Path("paper/oscar"))


COCO = {"train": ["1", "2", "3", "4"], "dev": ["5", "6"], "testall": ["7", "11", "20"]}
FLICKR30K = {"train": [*"abcd"], "dev": [*"ef"], "test": [*"ghi"]}


def published(home: Home) -> None:
    """COCO, Flickr30K, MSR-VTT, judgements and an Oscar, as they are downloaded."""
    captioned(home)
    write_data_set("coco", "coco_precomp", COCO, "COCO_val2014_{:0>12}.jpg")
    write_data_set("flickr30k", "f30k_precomp", FLICKR30K, "{}.jpg")
    samples.write_vinvl(Path("coco2014train"), samples.random_images(COCO["train"]))
    samples.write_vinvl(Path("coco2014val"), samples.random_images(COCO["dev"] + COCO["testall"]))
    samples.write_vinvl(Path("flickr30k"), samples.random_images("abcdefghi"))
    for folder in ("base-vg-labels", "cxc", "runs"):
        Path(folder).mkdir()
    cxc.write_judgements(Path("cxc/data"), "test")
    videos = {"trn": ["v1", "v2", "v3", "v4"], "val": ["v5"], "tst": ["v6"]}
    captions.write_hgr(Path("MSRVTT"), {f"v{n}": TEXTS for n in range(1, 7)}, **videos)
    frames = {key: {one: samples.numbers(3, 8) for one in own} for key, own in videos.items()}
    samples.frames_folder(Path("MSRVTT"), **frames)
    sizes = {"img_feature_dim": 11, "max_position_embeddings": 80}
    weights = oscar_weights(norm=True, width=11)  # a region's 5 numbers, and 6 of its box
    weights["bert.embeddings.position_embeddings.weight"] = torch.randn(80, 32)
    write_oscar(Path("base-vg-labels/ep_67_588997"), weights, **sizes)
    for run, variant in (("as-printed", "paper"), ("as-coded", "code")):
        write_run(Path("runs", run), {0: "step,negatives\n9,3.0\n"}, variant)


def write_data_set(data: str, precomp: str, splits: Mapping[str, list[str]], file: str) -> None:
    """One data set in the folder of SCAN, in Karpathy's JSON, and as photos."""
    images: list[Any] = []
    for split, ids in splits.items():
        samples.write_precomp(Path(precomp), split, samples.numbers(len(ids), 3, 8), ids)
        captions.write_precomp(Path(precomp), split, TEXTS * len(ids), ids)
        for one in ids:
            judged = cxc.IMAGES.get(int(one), []) if one.isdigit() else []
            numbers = [*judged, *range(100 + 10 * len(images), 110 + 10 * len(images))]
            texts = [{"raw": text, "sentid": n} for text, n in zip(TEXTS, numbers, strict=False)]
            named = {"dev": "val", "testall": "test"}.get(split, split)
            images.append({"filename": file.format(one), "split": named, "sentences": texts})
    Path(f"dataset_{data}.json").write_text(json.dumps({"images": images}))
    copy_drawings(f"data/{data}/photos", [f"{one}.jpg" for own in splits.values() for one in own])


# ---- tables: what each page takes as given, what is made between lines, what is appended ---------

GIVEN: dict[str, Callable[[Home], None]] = {
    "README.md": pictures,
    "docs/clients.md": indexed,
    "docs/export.md": indexed,
    "docs/features.md": foreign,
    "docs/index.md": pictures,
    "docs/milvus.md": pushed,
    "docs/operations.md": operated,
    "docs/own-model.md": captioned,
    "docs/paper.md": drawn,
    "docs/publish.md": indexed,
    "docs/queries.md": indexed,
    "docs/reproduce.md": published,
    "docs/results/ablations.md": captioned,
    "docs/results/dense-models.md": captioned,
    "docs/results/recall.md": with_scenes,
    "docs/results/speed.md": captioned,
    CLUSTER: mounted,
    "docs/updating.md": pictures,
}


def run_of(preset: str, data: str = "features=[data/{0}/regions]", of: str = "flickr30k") -> str:
    """The line that trains a preset on a data set, into the folder of its name."""
    given = f"--set data.{data} --set data.captions=data/{{0}}/captions.jsonl".format(of)
    return f"train {preset} --out runs/{preset} {given}"


PHOTOS, OSCAR = "photos=data/{0}/photos", "--init oscar:base-vg-labels/ep_67_588997"
MOBILENET = "--backbone mobilenet_v2_1.0_224/"
# Start of a line → what runs before it, because no line of the page makes it.
BEFORE = {
    # docs/updating.md
    "add index ~/Pictures/2024": ["cp Pictures/raw/one.jpg Pictures/new.jpg"],
    "merge": [
        *("cp -r index laptop", "cp -r index archive"),
        *("delete laptop --filter path:beach", "delete archive --filter -path:beach --yes"),
    ],
    "restore index-7": ["snapshot index index-7", "snapshot index index-8"],
    # docs/queries.md
    "index photos --model adapted": [
        "adapt openai/clip-vit-base-patch32 --photos photos --out adapted"
    ],
    # docs/reproduce.md
    "eval model runs/coco/vse-inf-region-bert/": [run_of("coco/vse-inf-region-bert", of="coco")],
    "eval model runs/flickr30k/vse-2ad": [
        run_of("flickr30k/vse-2ad-region-bert"),
        run_of("flickr30k/vse-2ad-grid-bert", PHOTOS),
        run_of("flickr30k/vse-2ad-patch-bert", PHOTOS),
    ],
    "eval model runs/coco/visualsparta/model runs": [
        f"{run_of('flickr30k/visualsparta', 'features=[data/{0}/vinvl]')} {OSCAR}"
        " --set data.captions=dataset_flickr30k.json"
    ],
    "eval figure convergence": [
        run_of("coco/vse-2ad-region-bigru", of="coco"),
        "train coco/vse-2ad-region-bigru --out runs/2ad-3/region-without-adopt-hinge-s0 --set "
        "objective.kind=triplet --set data.features=[data/coco/regions] "
        "--set data.captions=data/coco/captions.jsonl",
    ],
    "eval figure views": [
        run_of("flickr30k/mv-vse-region-bigru"),
    ],
    "eval figure attention": [
        f"extract photos {MOBILENET} --out features",
        "train flickr8k/mv-vse-grid-bigru --out runs/flickr8k/mv-vse-grid-bigru "
        "--set data.features=[features] --set data.captions=captions.jsonl",
    ],
    # docs/results/dense-models.md
    "eval model runs/dual": [
        "extract photos --backbone efficientnet-lite2 --grid 1 --out features/plain"
    ],
    # docs/results/speed.md
    "adapt runs/dual-minilm-s0": [
        "train flickr8k/dual-minilm --out runs/dual-minilm-s0 --set data.photos=photos "
        "--set data.captions=captions.jsonl --init bert"
    ],
    # docs/results/recall.md
    "eval pruning val-features": ["mkdir -p eval/results/photos"],
    "train flickr8k-mobilenet --out runs/0": [
        f"extract photos {MOBILENET} --augmentation {one} --out f/{one}"
        for one in ("flip", *(f"crop:{seed}" for seed in range(1, 7)))
    ],
    "eval pruning f/plain f/flip f/crop:* --model runs/0/model …": ["cp -r runs/0 runs/4"],
    "eval pruning features/grid": [
        *("cp -r runs/0 runs/sparta-grid-s0", "mkdir -p features", "cp -r f/plain features/grid")
    ],
    "eval model runs/sparta-grid-s0/model runs/scenes": [
        *("rm -r scenes", "cp -r transfer scenes", "cp -r runs/0 runs/scenes-s0"),
        f"extract scenes/images {MOBILENET} --out features/scenes",
    ],
}

# Start of a line → options for few photos and no time.
APPENDED = {
    "serve": "--check",
    "restore|delete .*--filter path": "--yes",
    "extract": "--workers 0",
    "train (?!photos |flickr8k/dual)": "--set epochs=1 --set batch_size=4 --set accelerator=cpu "
    "--set devices=1 --set workers=0",
    r"train \S*/(vse|mv-vse)": "--set model.options.dimension=8 --set model.options.word_dim=8",
    "train (photos|flickr8k/dual)": "--set data.augmentations=1 --set teachers.epochs=1 "
    "--set teachers.count=1 --set teachers.batch_size=4 --set batch_size=4 --set epochs=1 "
    "--set model.width=8 --set model.size=8 --set random_sentences=4",
    "train flickr8k/dual": "--set data.validation_photos=2",
    "bench speed": "--images 30 --top-n 10,all --seconds 0.01",
    "eval pruning": "--top-n 10,all",
    "eval figure grounding": "--images 2",
    "eval table": "--seeds 1 --set epochs=1 --set batch_size=4 --set accelerator=cpu "
    "--set devices=1 --set workers=0",
    "eval table (gpo|2ad|mv)": "--set model.options.dimension=8 --set model.options.word_dim=8",
    "eval table mv-vse-3": "--row L_Max --row joint",
    "eval table gpo-1": "--row mean",
    "eval table 2ad-3": "--row VSE+2AD",
    "eval table visualsparta-4": "--row all",
}
# Settings in the code, for protocols of three photos, short fits, and no waiting.
SMALL: dict[str, Any] = {
    "eval.tables._train": train_here,
    "bm25s.BM25": lambda backend, made=bm25s.BM25: made(backend="numpy"),  # numba compiles: 15 s
    "eval.bench.vectors.CENTRES": 5,
    "eval.bench.vectors.DIMENSION": 32,
    "eval.bench.vectors.IMAGES": 50,
    "eval.recall.photos.FOLD": 1,
    "eval.recall.photos.PHOTOS": dict.fromkeys(("coco-1k", "coco-5k", "flickr30k-1k"), 3),
    "indexer.milvus.push.follow": partial(follow, pause=interrupt),
    "sparta.adapt.adapt.STEPS": 5,
    "sparta.adapt.adapt._is_word": set(tiny_networks.WORDS).__contains__,
    "sparta.adapt.adapt.generated_sentences": partial(generated_sentences, 50),
    "sparta.extract.job.default_workers": lambda: 0,
}


def run_page(page: str, folder: Path, words: Mapping[str, str] | None = None) -> None:
    """Run the lines of a page in order, in a folder that is empty, with some other words."""
    with ExitStack() as stack:
        stack.enter_context(chdir(folder))
        home = Home(page, folder, stack)
        home.words |= words or {}
        GIVEN[page](home)
        for line in commands(ROOT / page):
            for start, before in BEFORE.items():
                for text in before if " ".join(line).startswith(start) else ():
                    home.run(text)
            home.run(line)


@pytest.fixture(autouse=True)
def small(tmp_path: Path, hub: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The models and keys of a test, and `SMALL`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("IMMICH_API_KEY", immich.KEY)
    for place, value in {"huggingface_hub.constants.HF_HUB_CACHE": str(hub), **SMALL}.items():
        monkeypatch.setattr(place, value)
    yield
    _on_hub.cache_clear()


def test_every_page_is_run() -> None:
    assert GIVEN.keys() == {name(page) for page in PAGES if commands(page)}


@pytest.mark.parametrize(
    "page",
    [page for page in GIVEN if page != CLUSTER],
)
def test_lines_run_in_order(page: str, tmp_path: Path) -> None:
    run_page(page, tmp_path)


def test_two_steps_do_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two commands that `docs/updating.md` names beside `sparta index`."""
    monkeypatch.setattr("sparta.networks.load.computes_bfloat16", lambda _: False)
    named = inline_commands(ROOT / "docs/updating.md")
    home = Home("docs/updating.md", tmp_path, ExitStack())
    pictures(home)
    home.run("index ~/Pictures --out direct")
    home.run(next(line for line in named if line[0] == "extract"))
    assert ["index", "features", "--out", "index"] in named
    home.run("index features --out steps")
    with closing(open_index("direct")) as direct, closing(open_index("steps")) as steps:
        wanted = direct.search("dogs on a beach", 10).hits
        assert wanted
        assert steps.search("dogs on a beach", 10).hits == wanted
