"""`python -m turnmark`: the command, where its script is not on the path."""

from turnmark.evaluation.cli import main

main()
