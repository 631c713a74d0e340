"""The command line: arguments in, calls down, results out. No logic lives here."""

from setwise.cli.app import app, main

__all__ = ["app", "main"]
