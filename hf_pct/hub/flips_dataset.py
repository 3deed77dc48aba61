"""The flipped rows as a dataset of their own: on request only, and private unless said otherwise."""

import io

import pyarrow.parquet as pq
from huggingface_hub import DatasetCard, DatasetCardData, HfApi

from ..flips.render.report import escape, verdict
from ..flips.report import FlipReport
from .client.commit import Commit, commit_files
from .client.names import check_repo_id, hub_id, one_line

PATH = "data/flips.parquet"


def push_flips(
    report: FlipReport, repo_id: str, new_model: str, *, token: str | None = None, private: bool = True
) -> Commit:
    """Upload the flipped rows with all columns that were kept when predicting, texts among them."""
    check_repo_id(repo_id)
    check_flips(report)
    buffer = io.BytesIO()
    pq.write_table(report.flips, buffer, compression="zstd")
    files = {PATH: buffer.getvalue(), "README.md": str(_card(report, new_model)).encode("utf-8")}
    return commit_files(
        HfApi(token=token), repo_id, files, message=f"Flips of {new_model}", repo_type="dataset", private=private
    )


def check_flips(report: FlipReport) -> None:
    """An empty dataset is refused before anything goes up."""
    if not len(report.flips):
        raise ValueError("No row flipped, so there is no dataset of flips to publish. Leave flips_dataset out.")


def _card(report: FlipReport, new_model: str) -> DatasetCard:
    source = hub_id(report.new.dataset)
    data = DatasetCardData(
        source_datasets=[source] if source else None,
        pretty_name=f"Flips of {new_model}",
        tags=["hf-pct", "negative-flips"],
        configs=[{"config_name": "default", "data_files": [{"split": "test", "path": PATH}]}],
    )
    old = escape(one_line(report.old.model or "the old model"))
    body = (
        f"# Flips of {escape(new_model)}\n\nThe rows of {escape(one_line(report.new.dataset or 'the test data'))} on "
        f"which {old} and {escape(new_model)} differ in being right. {verdict(report)}\n\n`kind` is `negative` where "
        "the old model was right and the new one is wrong, `positive` the other way round.\n"
    )
    return DatasetCard(f"---\n{data.to_yaml()}\n---\n\n{body}")
