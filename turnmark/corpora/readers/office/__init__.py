"""Spreadsheets and slides of Microsoft Office and OpenDocument, CSV, and the preparation of Word, ODT and RTF files
for `pandoc`. The room imports `common`, `pictures`, `markup`, `registry` and the tables of `turnmark.corpora`."""
