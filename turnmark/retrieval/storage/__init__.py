"""The files of an index: manifest, passages, pictures, vectors in Chroma, and the addresses of servers. A module here
knows one file and not the index as a whole. Imports `ranking`."""
