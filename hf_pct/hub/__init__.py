"""PUBLISH: an updated model on the Hub with what it breaks, against the exact revision that it replaces."""
