"""What clients may do: the authorizer that a broker is configured with."""
