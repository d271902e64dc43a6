"""The profiler: where the time of real engine steps goes, op by op, set against the machine's ceilings."""
