"""From scores to numbers with intervals: tallies, cluster statistics, and published results to compare with. It may
import `metrics` and `storage`."""
