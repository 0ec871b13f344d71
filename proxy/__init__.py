"""The serving layer: streams for thin clients, through the proxy that owns each."""
