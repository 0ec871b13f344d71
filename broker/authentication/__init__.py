"""Who a connection is: SASL on Kafka's listeners."""
