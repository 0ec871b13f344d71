"""What a write proxy does with the streams that it owns."""
