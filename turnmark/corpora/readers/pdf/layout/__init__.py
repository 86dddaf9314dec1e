"""Turns pages into columns of lines and tables in reading order, without running headers, tables of contents and
clutter. The room imports `page` and `tables`."""
