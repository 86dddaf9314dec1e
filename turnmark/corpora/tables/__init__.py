"""The tables of a document: their Markdown, the dates and numbers that cells show, the types of columns, and rows
with totals. The room imports `text` and `types`."""
