"""The serving layer: proxies that own and serve log streams for thin clients."""
