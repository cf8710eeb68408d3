from indexer.search.open import open_index as open_index
from sparta.visualsparta.encode_photos import encode_photos as encode_photos
from sparta.visualsparta.model import VisualSparta as VisualSparta

__all__ = ["VisualSparta", "encode_photos", "open_index"]
