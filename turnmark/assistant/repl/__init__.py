"""`turnmark chat`: a conversation in a terminal, or on a pipe with one turn per line. It may import `turn` and
`sessions`."""
