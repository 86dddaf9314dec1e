"""Reads the words and rules of a page, with pdfium or by OCR, and turns them upright. The room imports `page`,
`tables` and `figures`."""
