"""What is timed: each engine built from the same collection and asked the same queries."""
