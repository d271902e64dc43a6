"""Settings: one frozen schema, filled from file, environment and flags."""
