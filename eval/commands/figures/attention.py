"""`sparta figure attention`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.figures.options import DenseModelName, FeatureStoreFolder, Picture
from sparta.errors import InputError


def attention(
    context: typer.Context,
    model: DenseModelName,
    features: FeatureStoreFolder,
    image: Annotated[str, typer.Option(help="Id of the image in the features.")],
    out: Picture,
    caption: Annotated[
        list[str] | None, typer.Option(help="A text to show under the view nearest to it.")
    ] = None,
    photos: Annotated[
        Path | None, typer.Option(help="Folder of photos (default: the one the features name).")
    ] = None,
) -> None:
    """Draw over a photo the regions each view of a model attends to (MV-VSE, figure 5).

    [bold]Example[/bold]

    sparta figure attention model/ --features features/ --image a.jpg
    --caption "a child in a striped shirt" --caption "red chairs" --out attention.png
    """
    from eval.figures.attention import draw, look
    from eval.plotting import check_picture, save
    from indexer.dense.text_encoder import load_dense_model
    from indexer.encoding.stores import check_features, check_stores
    from sparta.features.extract.image_files import load_photo
    from sparta.features.store import FeatureStore

    check_picture(out)
    store = FeatureStore.open(features)
    check_stores([store])
    folder = photos or store.photos
    if folder is None:
        raise InputError(f"{features} does not name a folder of photos: give --photos")
    if image not in store.ids:
        raise InputError(f"--image {image!r} is not in {features}; {store.ids[0]!r} is")
    loaded = load_dense_model(model)
    check_features(model, loaded.config, store)
    found = look(loaded, store[store.index(image)], caption or [])
    photo = load_photo(folder / image).image
    save(draw(found, photo), vars(found), out, context.params)
