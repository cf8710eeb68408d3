"""Recall by Crisscrossed Captions (CxC): read human judgements, and measure by them."""
