"""Model folders on disk: read, merged as a stream, recorded, and made again."""

from ...core.lazy import lazy_names

_HOMES = {
    "Checkpoint": "folders",
    "NOT_COPIED": "folders",
    "NOT_COPIED_NAMES": "folders",
    "PICKLED": "folders",
    "TOKENIZER_PARTS": "folders",
    "VOCABULARIES": "folders",
    "compare_checkpoints": "folders",
    "compare_tokenizers": "folders",
    "open_all": "folders",
    "open_checkpoint": "folders",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
