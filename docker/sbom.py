"""List what an image is made of, as CycloneDX 1.5: its Python distributions and Debian packages."""

import json
import re
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from typing import Any


def of_python(found: Distribution) -> dict[str, Any]:
    """Describe an installed distribution."""
    name = re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
    licence = found.metadata.get("License-Expression")
    described: dict[str, Any] = {
        "type": "library",
        "name": name,
        "version": found.version,
        "purl": f"pkg:pypi/{name}@{found.version}",
    }
    if licence:
        described["licenses"] = [{"expression": licence}]
    return described


def of_debian() -> list[dict[str, Any]]:
    """Describe the base's packages; none where the base is no Debian."""
    command = ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${Architecture}\n"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        return []
    return [
        {
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:deb/debian/{name}@{version}?arch={architecture}",
        }
        for name, version, architecture in map(str.split, listed.splitlines())
    ]


def main() -> None:
    """Print the listing."""
    python = sorted(map(of_python, distributions()), key=lambda each: str(each["name"]))
    listing = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "components": python + of_debian(),
    }
    json.dump(listing, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
