"""The nouns that cross rooms: requests, sampling parameters, step plans, outputs, errors."""
