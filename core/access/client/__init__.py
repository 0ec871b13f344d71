"""What a client of Kafka's brings to get in: settings, TLS, SASL; of tools and of brokers."""
