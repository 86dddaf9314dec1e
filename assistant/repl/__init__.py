"""`turnmark chat`: a conversation in a terminal, or on a pipe a line a turn."""
