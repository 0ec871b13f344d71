"""The port of `--test-faults`, asked by a client that is not ours."""

import json
import urllib.error
import urllib.request
from typing import Any


class FaultPort:
    """Where a broker said that it can be broken."""

    def __init__(self, printed: str) -> None:
        (line,) = [each for each in printed.splitlines() if each.startswith("faults: http=")]
        self.url = f"http://{line.removeprefix('faults: http=')}/faults"

    def ask(self, method: str, path: str = "", **order: object) -> tuple[int, Any]:
        body = json.dumps(order).encode() if order else None
        request = urllib.request.Request(self.url + path, data=body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)
