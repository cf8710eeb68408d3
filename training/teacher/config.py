"""Settings of learning from a teacher."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from training.run_config import Section


class TeacherConfig(Section):
    """Models to learn from, the sentences they compare with photos, and what is learnt.

    Attributes:
        models: hub names or folders: dual encoders of the transformers library (CLIP, SigLIP,
            Chinese-CLIP and others), dense VSE models. Several are averaged, each standardised
            first.
        sentences: text file, one sentence a line. The captions are sentences, too.
        features: feature stores that dense models read, if not those of the run. Each model
            reads all stores of the features it was trained on, and averages over them.
        photos: folder of the photos, which dual encoders read, if it is neither `data.photos` nor
            recorded in the feature stores.
        captions: whether to learn from the captions of the training photos. Without them only the
            split and the held-out photos are taken from the captions file.
        weight: of the teacher in the objective; equation 13 has the rest. It is 1 without captions.
        temperature: the teacher's standardised similarities are divided by it.
        image_to_text: share of the direction image → text.
        nearest: how many of the sentences nearest to a photo it draws from.
        near_sentences: sentences drawn of those, for each photo and step.
        random_sentences: sentences drawn of all, for each photo and step.
    """

    models: list[str] = Field(min_length=1)
    sentences: Path | None = None
    features: list[Path] = Field(default=[])
    photos: Path | None = None
    captions: bool = True
    weight: float = Field(default=0.5, gt=0, le=1)
    temperature: float = Field(default=0.3, gt=0)
    image_to_text: float = Field(default=0.5, ge=0, le=1)
    nearest: int = Field(default=32, ge=1)
    near_sentences: int = Field(default=4, ge=0)
    random_sentences: int = Field(default=1, ge=0)
