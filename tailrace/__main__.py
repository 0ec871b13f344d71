"""`python -m tailrace`."""

from tailrace import main

main()
