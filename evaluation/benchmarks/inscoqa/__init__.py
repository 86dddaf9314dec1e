"""InsCoQA."""
