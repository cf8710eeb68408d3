"""From photos to image features: decoding, vision networks, detectors."""
