"""VisualSparta's image side as one module, to be converted: regions in, term scores out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sparta.visualsparta.batch import ImageBatch
from sparta.visualsparta.model import VOCABULARY_CHUNK, VisualSparta


class ImageTerms(nn.Module):
    """Equations 2 to 11 for images without labels and with equally many regions: nothing is masked.

    Args:
        model: that reads no labels, in eval mode.
        terms: [T] int64, the terms to score.
    """

    def __init__(self, model: VisualSparta, terms: Tensor) -> None:
        super().__init__()
        self.model = model
        self.vectors = nn.Parameter(model.query_embedding(terms).detach().clone())

    def forward(self, regions: Tensor, locations: Tensor) -> tuple[Tensor, Tensor]:
        """Score B images.

        Args:
            regions: [B, n, d] float16.
            locations: [B, n, 6] float32.

        Returns:
            scores [B, T] float32, and the winning regions [B, T] int32.
        """
        none = torch.zeros(len(regions), 0, dtype=torch.int64)
        everywhere = torch.ones(regions.shape[:2], dtype=torch.bool)
        batch = ImageBatch(regions, locations, everywhere, none, none.bool(), none)
        if self.model.head is not None:
            hidden = self.model.head(batch.regions)
        else:
            embedded = self.model.embed_regions(batch)
            hidden = self.model.encoder.encoder(embedded, attention_mask=None).last_hidden_state
        found = [self.model.winners(part) for part in self.products(hidden)]
        best, columns = zip(*found, strict=True)
        return self.model.activate(torch.cat(best, dim=1)), torch.cat(columns, dim=1).int()

    def products(self, hidden: Tensor) -> list[Tensor]:
        """The products of hidden states [B, n, h] with the terms' vectors, [B, n, t] at a time."""
        return [hidden @ part.T for part in self.vectors.split(VOCABULARY_CHUNK)]
