"""The embedded default: real intents, real digits and real pretrained weights, all from installed packages.

Nothing here uses a network. `hf-pct demo` shows the kit with it; the tests and the documentation use the same
data, so that what a newcomer sees is what is tested.
"""
