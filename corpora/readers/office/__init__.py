"""Word processors' files, sheets and slides: checked, unpacked and turned into Markdown, which our reader reads."""
