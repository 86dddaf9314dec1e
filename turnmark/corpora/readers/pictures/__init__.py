"""The pictures of documents: collecting, measuring and converting them, following links to them, and reading picture
files. The room imports `common` and `registry`."""
