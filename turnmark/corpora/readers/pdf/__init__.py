"""Reads a PDF as Markdown-like text, in steps.

    extraction  the file -> pages: words with fonts and positions, and rules; scanned pages by OCR
    figures     what a page draws, and the pictures, charts and diagrams among it
    layout      pages -> columns of lines and tables (the room tables), without what is not text
    headings    the lines that are headings
    blocks      columns -> blocks: paragraphs, list items, tables, code; blocks -> Markdown
    document    all steps, with the title and the date

The room page has the records and patterns that all steps share. `page_picture` draws a page for the user. pdfium is
loaded only when it is needed.
"""
