"""LOOK: the flips as one self-contained page and as pictures for print."""
