"""Finds the tables of a page, with rules or without, and arranges their cells. The room imports `page`."""
