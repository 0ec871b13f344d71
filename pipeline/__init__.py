"""The Spark side: PySpark jobs over Spark's own Kafka source and sink; a client like any other."""
