"""Files and batches: requests that are kept on disk and answered when there is time."""
