"""A load generator for any OpenAI-compatible server: streaming requests, timed chunk by chunk."""
