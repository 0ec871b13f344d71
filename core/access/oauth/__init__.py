"""Bearer tokens: JSON Web Tokens, and the public keys that their signatures are checked by."""
