"""Commands about who may come in."""
