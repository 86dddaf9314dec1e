"""The records that all layers of a PDF share, from words over lines to drafts of blocks, with their geometry, letters
and text patterns. The room imports `types` and `text`."""
