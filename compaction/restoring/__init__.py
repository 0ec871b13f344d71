"""Latest value per key of a topic, over Kafka's protocol; the public names are in restore.py."""
