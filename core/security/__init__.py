"""Who a peer is: TLS, certificates and the names in them."""
