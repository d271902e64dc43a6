"""KV blocks: the pool, leases, and the prefix index."""
