"""The one place where the version stands; setup.cfg and the reports read it here."""

__version__ = "0.1.0"
