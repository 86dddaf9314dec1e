"""Reads a PDF as Markdown-like text, in steps.

    glyphs      the file -> pages: words with fonts and positions, and rules (letters, fonts, drawings, raw, page)
    scans       scanned pages, by OCR (ocr)
    layout      pages -> columns (columns) of lines (lines) and tables (ruled_tables, aligned_tables, table_cells),
                without what is not text (running_headers, clutter, contents)
    headings    the lines that are headings (outline, styled_headings, heading_levels)
    flow        columns -> blocks: paragraphs, list items, tables, code (blocks, paragraphs, code_listing)
    writer      blocks -> Markdown
    document    all steps, with the title and the date (metadata)

`picture` draws a page for the user. pdfium is loaded only when it is needed.
"""
