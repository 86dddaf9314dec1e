"""One benchmark, one room: its tasks, how the system is asked, how the outcome is scored and beside what it is set."""
