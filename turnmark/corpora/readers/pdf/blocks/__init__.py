"""Turns columns into paragraphs, list items, tables and code, joins them across columns and pages, and writes them as
Markdown. The room imports `page`, `layout` and `headings`."""
