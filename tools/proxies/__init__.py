"""`tailrace proxy`, but for running them: which there are, what they own, moves between them."""
