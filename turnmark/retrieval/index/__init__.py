"""The life of an index: building, reading of sources, descriptions of pictures, watching a folder, joined indexes,
the list of documents, and the `Index` of the Python API. Imports all other rooms of `retrieval`."""
