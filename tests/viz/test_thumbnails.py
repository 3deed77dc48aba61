"""Thumbnails: small, found by id, and only those that are shown are decoded."""

import base64
import io

import datasets
import numpy as np
import pytest
from PIL import Image

from hf_pct.viz.page.thumbnails import data_uri, thumbnails


def decoded(uri: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1])))


@pytest.mark.parametrize(
    ("mode", "size", "kind", "expected"),
    [
        ("RGB", (640, 320), "jpeg", (112, 56)),
        ("L", (8, 8), "png", (8, 8)),
        ("RGBA", (300, 300), "png", (112, 112)),
        ("CMYK", (200, 100), "jpeg", (112, 56)),
        ("P", (90, 90), "jpeg", (90, 90)),
        ("I;16", (20, 20), "png", (20, 20)),
    ],
)
def test_any_picture_becomes_a_small_data_uri(mode, size, kind, expected):
    uri = data_uri(Image.new(mode, size))
    assert uri.startswith(f"data:image/{kind};base64,")
    assert decoded(uri).size == expected


def test_pictures_are_found_by_id_in_a_dataset():
    shades = [Image.fromarray(np.full((8, 8), 10 * row, dtype=np.uint8)) for row in range(12)]
    data = datasets.Dataset.from_dict({"uid": [100 + row for row in range(12)], "image": shades})
    data = data.cast_column("image", datasets.Image())
    found = thumbnails(data, [103, "107", 999])
    assert list(found) == ["103", "107"]
    assert decoded(found["107"]).getpixel((0, 0)) == (70, 70, 70)
    by_row = thumbnails(data.remove_columns("uid"), [3])
    assert by_row["3"] == found["103"], "without an id column the id is the row number, as in predict"


def test_broken_rows_come_first_and_the_number_is_kept():
    images = {number: Image.new("RGB", (4, 4)) for number in range(10)}
    assert list(thumbnails(images, range(10), most=3)) == ["0", "1", "2"]


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match=r"no id of the report.*'a', 'b'"):
        thumbnails({"c": Image.new("L", (2, 2))}, ["a", "b"])
    with pytest.raises(ValueError, match=r"0 image columns \(none\), expected one. Its columns: id"):
        thumbnails(datasets.Dataset.from_dict({"id": [1]}), [1])
    with pytest.raises(ValueError, match="images is a list, expected a mapping"):
        thumbnails([], [1])
    with pytest.raises(ValueError, match="An image is a str"):
        thumbnails({1: "a.png"}, [1])
