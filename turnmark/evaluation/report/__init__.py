"""Finished runs as tables, on the screen, as Markdown, CSV, LaTeX or a page, next to the papers' tables. It may
import `judging`, `scores` and `storage`."""
