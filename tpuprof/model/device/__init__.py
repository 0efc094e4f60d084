"""What devices did: ops, transfers, collectives, memory, loops."""
