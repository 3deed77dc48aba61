"""The Space's page: paste three columns of labels, or upload a CSV file, and read the flips.

The parsing and the counting are plain functions; gradio is imported only to show the page.
"""

import csv
import io
from pathlib import Path

import evaluate

COLUMNS = ("reference", "old_prediction", "new_prediction")
EXAMPLE = ("cat\ncat\ndog\ndog\nbird", "cat\ncat\ndog\ncat\ncat", "cat\ndog\ndog\ndog\ncat")


def flips_from_text(references: str, old_predictions: str, new_predictions: str) -> dict:
    """The metric on three texts with one label per line."""
    return _compute(*(_lines(text) for text in (references, old_predictions, new_predictions)))


def flips_from_csv(text: str) -> dict:
    """The metric on a CSV text with the columns reference, old_prediction, new_prediction; others are ignored."""
    reader = csv.DictReader(io.StringIO(text))
    header = [name.strip() for name in reader.fieldnames or []]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise ValueError(
            f"The file has no column {', '.join(missing)}. Expected {', '.join(COLUMNS)}; found {header}."
        )
    rows = [{(name or "").strip(): value for name, value in row.items()} for row in reader]
    return _compute(*([(row[name] or "").strip() for row in rows] for name in COLUMNS))


def _lines(text: str) -> list[str]:
    """One label per line; blank lines at the end are not rows."""
    return [line.strip() for line in text.rstrip().splitlines()]


def _compute(references: list[str], old_predictions: list[str], new_predictions: list[str]) -> dict:
    columns = dict(zip(COLUMNS, (references, old_predictions, new_predictions), strict=True))
    for name, values in columns.items():
        empty = [number for number, value in enumerate(values, start=1) if not value]
        if empty:
            raise ValueError(f"{name} has no label in row {empty[0]}. Expected one label in every row.")
    metric = evaluate.load(str(Path(__file__).with_name("nfr.py")), keep_in_memory=True)
    return metric.compute(references=references, old_predictions=old_predictions, predictions=new_predictions)


def build_page():
    """The gradio page."""
    import gradio as gr

    def show(references, old_predictions, new_predictions, file):
        try:
            if file is not None:
                return flips_from_csv(Path(file).read_text(encoding="utf-8-sig"))
            return flips_from_text(references, old_predictions, new_predictions)
        except ValueError as error:
            raise gr.Error(str(error)) from error

    titles = ("Right labels", "Old model", "New model")
    boxes = [gr.Textbox(value=text, label=title, lines=8) for title, text in zip(titles, EXAMPLE, strict=True)]
    upload = gr.File(label=f"or a CSV file with {', '.join(COLUMNS)}", file_types=[".csv"], type="filepath")
    return gr.Interface(
        fn=show,
        inputs=[*boxes, upload],
        outputs=gr.JSON(label="Flips"),
        title="Negative flip rate",
        description="What does the new model get wrong that the old one got right? One label per line, in one order.",
    )


if __name__ == "__main__":
    build_page().launch()
