"""Pictures of flipped rows, small enough to be part of a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from datasets import Dataset
    from PIL.Image import Image

Images: TypeAlias = "Mapping[object, Image] | Dataset"
Finder: TypeAlias = "Callable[[str], Image | None]"

SIDE = 112
MAX_IMAGES = 500
_ID_COLUMNS = ("id", "idx", "guid", "uid")


def thumbnails(images: Images, ids: Iterable[object], *, most: int = MAX_IMAGES, side: int = SIDE) -> dict[str, str]:
    """Data URIs by id for the first `most` of `ids` that have an image.

    `images` is a mapping from id to a PIL image, or a `datasets.Dataset` with an image column and an id column (`id`,
    `idx`, `guid` or `uid`, else the row number, as in `predict`). Only the images that are shown are decoded.
    """
    wanted = [str(row_id) for row_id in ids]
    find = _by_id(images) if isinstance(images, Mapping) else _by_row(images)
    uris: dict[str, str] = {}
    for name in wanted:
        if len(uris) == most:
            break
        picture = find(name)
        if picture is not None:
            uris[name] = data_uri(picture, side)
    if wanted and not uris:
        raise ValueError(
            f"None of the {len(wanted)} flipped rows has an image: no id of the report is among the images' ids. "
            f"The report's ids start with {', '.join(repr(name) for name in wanted[:3])}."
        )
    return uris


def data_uri(picture: Image, side: int = SIDE) -> str:
    """A picture as a data URI, at most `side` pixels wide and high; PNG where it is tiny or transparent, else JPEG."""
    from PIL import Image

    if not isinstance(picture, Image.Image):
        raise ValueError(f"An image is a {type(picture).__name__}, expected a PIL image.")
    small = picture.copy()
    small.thumbnail((side, side))
    buffer = io.BytesIO()
    if max(small.size) <= 40 or "A" in small.getbands():
        kind = "png"
        small.convert("RGBA" if "A" in small.getbands() else "RGB").save(buffer, "PNG", optimize=True)
    else:
        kind = "jpeg"
        small.convert("RGB").save(buffer, "JPEG", quality=78, optimize=True)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def _by_id(images: Mapping[object, Image]) -> Finder:
    return {str(key): picture for key, picture in images.items()}.get


def _by_row(dataset: Dataset) -> Finder:
    """A look-up by id in a dataset; raises when it has no image column or when that is not clear."""
    import datasets

    if not isinstance(dataset, datasets.Dataset):
        raise ValueError(
            f"images is a {type(dataset).__name__}, expected a mapping from id to PIL image or a datasets.Dataset."
        )
    columns = [name for name, feature in dataset.features.items() if isinstance(feature, datasets.Image)]
    if len(columns) != 1:
        raise ValueError(
            f"The dataset has {len(columns)} image columns ({', '.join(columns) or 'none'}), expected one. Its "
            f"columns: {', '.join(dataset.column_names)}. Cast it with dataset.cast_column('image', datasets.Image())."
        )
    named = next((name for name in _ID_COLUMNS if name in dataset.column_names), None)
    ids = range(len(dataset)) if named is None else dataset[named]
    rows = {str(row_id): number for number, row_id in enumerate(ids)}
    pictures = dataset.select_columns(columns)

    def find(name: str) -> Image | None:
        number = rows.get(name)
        return None if number is None else pictures[number][columns[0]]

    return find
