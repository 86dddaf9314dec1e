"""What all rooms share: errors, specs, options of commands, the console, the home folder, records."""
