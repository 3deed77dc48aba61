"""The reference shows examples as code: its reader of docstrings knows `Examples:`, and ours are called `Example:`."""

import griffe


class Examples(griffe.Extension):
    """Renames the heading before the docstring is read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\n\nExample:\n", "\n\nExamples:\n")
