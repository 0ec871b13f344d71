"""Who may come in, and what they may do: users, SASL mechanisms, access control lists, tokens."""
