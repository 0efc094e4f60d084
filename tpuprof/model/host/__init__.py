"""What the host did: its events, samples, reads, waits, input and tracing."""
