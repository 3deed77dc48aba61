"""The reference's examples as code: the site's reader of docstrings knows the section `Examples:`, ours are `Example:`."""

import griffe


class Examples(griffe.Extension):
    """Renames the heading before the docstring is read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\n\nExample:\n", "\n\nExamples:\n")
