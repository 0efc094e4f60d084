"""What readers may add up on their way through a file, and where; no numpy here."""

# A stat that every op's event has and of which the sum by op is all that is asked for: readers may add it up as they
# go, rather than keep a column of it.
SUMMED_STAT = "device_duration_ps"
# Metadata ids below this many times their number are looked up in a table rather than searched for.
DENSE = 8
