import json
from pathlib import Path

from sparta.features.skipped import SKIPPED, skipped_summary


def test_the_summary_gives_the_most_frequent_reason(tmp_path: Path) -> None:
    assert skipped_summary(tmp_path) is None
    reasons = ["the file is empty", "no decoder", "no decoder"]
    lines = [json.dumps({"image_id": f"{i}", "reason": text}) for i, text in enumerate(reasons)]
    (tmp_path / SKIPPED).write_text("\n".join(lines) + "\n")
    assert skipped_summary(tmp_path) == (
        f"3 photos could not be used: see {tmp_path / SKIPPED}; 2 of them: no decoder"
    )
