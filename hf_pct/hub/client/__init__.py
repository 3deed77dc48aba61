"""Talking to the Hub: access, retries, commits, names."""
