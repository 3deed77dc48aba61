"""Pictures of flipped rows, small enough to travel inside a page."""

import base64
import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 112
MAX_IMAGES = 500
_ID_COLUMNS = ("id", "idx", "guid", "uid")


def thumbnails(images: Any, ids: Iterable[Any], *, most: int = MAX_IMAGES, side: int = SIDE) -> dict[str, str]:
    """Data URIs by id for the first `most` of `ids` that have an image.

    `images` is a mapping from id to a PIL image, or a `datasets.Dataset` with an image column and an id column (`id`,
    `idx`, `guid` or `uid`, else the row number, as in `predict`). Only the images that are shown are decoded.
    """
    wanted = [str(each) for each in ids]
    find = _by_id(images) if isinstance(images, Mapping) else _by_row(images)
    found: dict[str, str] = {}
    for name in wanted:
        if len(found) == most:
            break
        picture = find(name)
        if picture is not None:
            found[name] = data_uri(picture, side)
    if wanted and not found:
        raise ValueError(
            f"None of the {len(wanted)} flipped rows has an image: no id of the report is among the images' ids. "
            f"The report's ids start with {', '.join(repr(name) for name in wanted[:3])}."
        )
    return found


def data_uri(picture: "Image", side: int = SIDE) -> str:
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


def _by_id(images: Mapping[Any, Any]) -> Any:
    return {str(key): picture for key, picture in images.items()}.get


def _by_row(dataset: Any) -> Any:
    """A look-up by id in a dataset; raises when it has no image column or when that is not clear."""
    from datasets import Dataset, Image

    if not isinstance(dataset, Dataset):
        raise ValueError(
            f"images is a {type(dataset).__name__}, expected a mapping from id to PIL image or a datasets.Dataset."
        )
    columns = [name for name, feature in dataset.features.items() if isinstance(feature, Image)]
    if len(columns) != 1:
        raise ValueError(
            f"The dataset has {len(columns)} image columns ({', '.join(columns) or 'none'}), expected one. Its "
            f"columns: {', '.join(dataset.column_names)}. Cast it with dataset.cast_column('image', datasets.Image())."
        )
    named = next((name for name in _ID_COLUMNS if name in dataset.column_names), None)
    ids = range(len(dataset)) if named is None else dataset[named]
    rows = {str(each): number for number, each in enumerate(ids)}
    pictures = dataset.select_columns(columns)

    def find(name: str) -> Any:
        number = rows.get(name)
        return None if number is None else pictures[number][columns[0]]

    return find
