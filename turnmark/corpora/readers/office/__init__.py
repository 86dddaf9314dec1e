"""Reads text documents, spreadsheets and slides: checks and unpacks them and converts them to Markdown."""
