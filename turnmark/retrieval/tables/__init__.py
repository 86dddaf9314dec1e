"""The tables of an index: written while documents are read, found by their words, and queried row by row or with SQL.
Imports `storage`."""
