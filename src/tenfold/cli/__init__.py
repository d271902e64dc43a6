"""The tenfold command: one file a subcommand."""
