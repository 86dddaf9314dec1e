"""Markdown and HTML with their dialects: MDX, the syntax of site generators, footnotes. The room imports `common`,
`pictures` and `registry`. Other markup languages are read by `pandoc`, next to the rooms."""
