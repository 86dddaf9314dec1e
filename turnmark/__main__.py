"""`python -m turnmark`: the command, where its script is not on the path."""

from turnmark.cli import main

main()
