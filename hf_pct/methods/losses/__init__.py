"""Losses beside cross-entropy; one file per method, or per family of methods from one paper."""
