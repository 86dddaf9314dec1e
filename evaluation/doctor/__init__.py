"""`turnmark doctor`: what is installed, configured and kept here, and what of it is broken."""
