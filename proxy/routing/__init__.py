"""Which proxy a client asks for a stream, and which proxies there are."""
