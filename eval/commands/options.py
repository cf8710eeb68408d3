"""Options that several commands of `sparta eval` share."""

import typer

CAPTIONS = typer.Option(help="captions.jsonl: image, split and captions, one photo a line.")
SPLIT = typer.Option(help="Which photos of the captions to look for.")

STAGES = {"encode": ("Encoding images", "images"), "search": ("Searching", "queries")}
