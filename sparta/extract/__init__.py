"""From photos to image features: decoding, detectors, the job."""
