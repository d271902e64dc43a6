"""`python -m tenfold` is the command `tenfold`."""

from tenfold.cli.main import main

main()
