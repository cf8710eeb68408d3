"""Dense visual-semantic embeddings: VSE++, VSE∞, VSE+2AD and MV-VSE, to compare with."""
