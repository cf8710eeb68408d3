"""Vocabularies of classes as detectors of Visual Genome have them."""

from pathlib import Path

OBJECTS = "yolk\ntraffic light,stop light\nbuoy"  # as published: no line feed at the end


ATTRIBUTES = "gray,grey\nred"


def write_vocabulary(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "objects_vocab.txt").write_text(OBJECTS)
    (folder / "attributes_vocab.txt").write_text(ATTRIBUTES)
    return folder
