"""Finds the figures of a page by what it draws, their places in the text, and their pictures. The room imports
`page`, `layout`, `blocks` and the pictures of `readers`."""
