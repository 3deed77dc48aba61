"""Without the libraries' own messages and bars: a reader of the demo, or of an update, should see only that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers and datasets inside the block, and leave them as they were after it."""
    import datasets
    from transformers.utils import logging

    verbosity, bars, data_bars = (
        logging.get_verbosity(),
        logging.is_progress_bar_enabled(),
        datasets.are_progress_bars_disabled(),
    )
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
        if not data_bars:
            datasets.enable_progress_bars()
