"""The files of a run: journals, folders, predictions and recorded passages."""
