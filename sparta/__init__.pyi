from indexer.index import Index as Index
from indexer.index import build as build
from indexer.index import open as open
from server.client.client import AsyncClient as AsyncClient
from server.client.client import Client as Client
from server.client.transport import ClientError as ClientError
from sparta.errors import InputError as InputError
from sparta.visualsparta.encode_photos import encode_images as encode_images
from sparta.visualsparta.encode_photos import encode_queries as encode_queries
from sparta.visualsparta.model import VisualSparta as VisualSparta

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "Index",
    "InputError",
    "VisualSparta",
    "build",
    "encode_images",
    "encode_queries",
    "open",
]
