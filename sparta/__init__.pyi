from indexer.engines.open import open_index as open_index
from server.client.client import AsyncClient as AsyncClient
from server.client.client import Client as Client
from server.client.transport import ClientError as ClientError
from sparta.visualsparta.encode_photos import encode_photos as encode_photos
from sparta.visualsparta.model import VisualSparta as VisualSparta

__all__ = ["AsyncClient", "Client", "ClientError", "VisualSparta", "encode_photos", "open_index"]
