"""Users and what they prove themselves by: salted keys, never passwords (RFC 5802)."""
