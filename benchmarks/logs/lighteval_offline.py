"""Runs lighteval without a network: `python lighteval_offline.py accelerate ...` as `lighteval accelerate ...`.

lighteval 0.13 asks the Hub for a judge model and another server for a file while it lists its tasks, and it hashes
text where newer versions of xxhash take only bytes. None of this has to do with the task that is run.
"""

from types import SimpleNamespace

import huggingface_hub
import requests
import xxhash

plain_hash = xxhash.xxh64


class TextHash:
    """xxh64 that takes text too."""

    def __init__(self, content: str | bytes = b"") -> None:
        self.hash = plain_hash(content.encode() if isinstance(content, str) else content)

    def update(self, content: str | bytes) -> None:
        self.hash.update(content.encode() if isinstance(content, str) else content)

    def hexdigest(self) -> str:
        return self.hash.hexdigest()


if __name__ == "__main__":
    huggingface_hub.HfApi.list_models = lambda self, **query: ["not asked"]
    requests.get = lambda *address, **options: SimpleNamespace(status_code=404)
    xxhash.xxh64 = TextHash
    from lighteval.__main__ import app

    app()
