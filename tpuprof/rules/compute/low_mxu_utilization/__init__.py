"""The rule `low-mxu-utilization`."""
