"""The search for all parts of a message, the files and identifiers that it names, and the sections and tables that
hits grow to. It may import `steps.understand`."""
