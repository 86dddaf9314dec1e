"""The benchmarks: the tasks of each, how a system answers them and which metrics score the replies."""
