"""What a log holds by key, kept up by reading what is new. Pure."""
