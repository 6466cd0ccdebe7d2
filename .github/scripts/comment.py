"""Writes the summary of a run as a comment of a pull request, in place of that of an earlier job."""

import json
import os
import sys
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

MOST = 60_000  # characters; GitHub takes 65,536
PAGES = 20  # of a hundred comments


def call(method: str, address: str, body: str = "") -> Any:
    head = {"Authorization": f"Bearer {os.environ['COMMENT_TOKEN']}", "Accept": "application/vnd.github+json"}
    data = json.dumps({"body": body}).encode() if body else None
    request = urllib.request.Request(address, data, head, method=method)  # noqa: S310 - that of GitHub
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


def is_trusted(comment: Any) -> bool:
    """Whoever wrote a comment can change it later, so the summary is not put into a stranger's."""
    return comment["user"]["type"] == "Bot" or comment["author_association"] in {"OWNER", "MEMBER", "COLLABORATOR"}


def earlier(comments: str, mark: str) -> str:
    """Return the address of the comment of an earlier job, or an empty text."""
    for page in range(1, PAGES + 1):
        found = call("GET", f"{comments}?per_page=100&page={page}")
        for one in found:
            if one["body"].startswith(mark) and is_trusted(one):
                return str(one["url"])
        if len(found) < 100:
            break
    return ""


def main() -> None:
    about = os.environ
    mark = f"<!-- matrix {quote(about['ASKED_ARTIFACT'])} -->"
    try:
        text = (Path(about["RAN_FOLDER"]) / "summary.md").read_text(errors="replace")
    except OSError:
        sys.exit("there is no summary.md: the log of the step before says why")
    if len(text) > MOST:
        text = f"{text[:MOST]}\n\n… The page of the job has all."
    issue = f"{about['GITHUB_API_URL']}/repos/{about['GITHUB_REPOSITORY']}/issues/{int(about['PULL_REQUEST'])}"
    try:
        found = earlier(f"{issue}/comments", mark)
        call("PATCH" if found else "POST", found or f"{issue}/comments", f"{mark}\n{text}")
    except (HTTPException, OSError, ValueError) as problem:  # such as a token of a fork, which may not write
        why = f"{next(iter(str(problem).splitlines()), type(problem).__name__)}; the token needs `pull-requests: write`"
        sys.stdout.write(f"::warning title=no comment::{why}\n")


if __name__ == "__main__":
    main()
