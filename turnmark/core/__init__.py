"""Shared by all packages: errors, specs, command options, the console, the home folder, records."""
