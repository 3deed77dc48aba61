"""Renumbering a model's units so that it lies closest to another one."""
