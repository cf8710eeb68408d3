"""A server under load: how many requests a second it answers, and where their time goes."""
