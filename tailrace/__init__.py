"""Tailrace: a Kafka-compatible broker over a DistributedLog. All of it is imported from here.

In a checkout `broker`, `core` and so on are links to the folders beside this one; in a wheel they
are those folders. So a user's own package called `core` is never shadowed.
"""


def main() -> None:
    """Run the `tailrace` command."""
    from tailrace.core.runtime.collector import loading_modules

    with loading_modules():
        from tailrace.tools.main import run

    run()
