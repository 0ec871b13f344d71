"""The SASL mechanisms, server and client side; what carries their bytes is elsewhere."""
