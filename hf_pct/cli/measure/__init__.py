"""Commands that measure an update: count its flips, judge them, show them."""
