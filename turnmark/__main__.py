"""Runs the command line as `python -m turnmark`, for when the script `turnmark` is not on the path."""

from turnmark.cli import main

main()
