"""What principals may do: access control lists and how they decide, as Kafka does (KIP-11, 290)."""
