"""Finds headings by the outline, as slide titles and by their style, and determines their levels. The room imports
`page` and `layout`."""
