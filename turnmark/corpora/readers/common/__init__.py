"""What all formats share: encodings, titles, front matter, the errors of readers, and plain text. The room imports
`registry`, `types` and `text`."""
