"""A model that searches, reads, computes over tables and looks at pictures with tools before it answers. It may
import all steps but `steps.revise`."""
