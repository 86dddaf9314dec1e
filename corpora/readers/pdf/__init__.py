"""A PDF as a Markdown-like text, in steps.

    glyphs      the file -> pages: words with their fonts and places, ruled lines (letters, fonts, drawings, raw, page)
    scans       pages that are pictures, by OCR (ocr)
    layout      pages -> columns (columns) of lines (lines) and tables (ruled, aligned, cells), without what is no text
                (running, clutter, contents)
    headings    which lines are headings (outline, looks, levels)
    flow        columns -> blocks: paragraphs, list items, tables, code (blocks, paragraphs, listing)
    writer      blocks -> Markdown
    document    all of it, with the title and the date (metadata)

`picture` draws a page for a person. Nothing loads pdfium before it is needed.
"""
