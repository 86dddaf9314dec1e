"""What every package needs: errors, specs, records, home folder, console, flags of commands, and what makes foreign
text safe. It imports nothing of Turnmark."""
