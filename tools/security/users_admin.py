"""What `tailrace user` asks of a running broker, by confluent-kafka's administration client."""

from collections.abc import Mapping
from typing import Any

import confluent_kafka.admin
from confluent_kafka import KafkaException

from tailrace.core.access.users.credentials import ScramMechanism
from tailrace.core.access.users.new_credentials import new_salt
from tailrace.tools.clients.librdkafka import Target, admin, failure

api: Any = confluent_kafka.admin
"""Its classes come from modules that it does not export to type checkers."""


class UsersAdmin:
    """The users of one cluster. Errors: CliError from every method."""

    def __init__(self, to: Target) -> None:
        self._to = to
        self._admin = admin(to)

    def all(self) -> dict[str, dict[ScramMechanism, int]]:
        """Return all users: by name, iterations by mechanism."""
        try:
            futures = self._admin.describe_user_scram_credentials(
                request_timeout=self._to.timeout_s
            )
            found = futures.result(self._to.timeout_s)
        except KafkaException as error:
            raise failure(error, "describe users", self._to) from error
        return {
            name: {
                ScramMechanism(each.mechanism.value): each.iterations
                for each in found[name].scram_credential_infos
            }
            for name in sorted(found)
        }

    def put(self, name: str, password: str, wanted: Mapping[ScramMechanism, int]) -> None:
        """Give a user these mechanisms, with so many iterations each, in place of the same."""
        for mechanism, iterations in wanted.items():
            info = api.ScramCredentialInfo(api.ScramMechanism(mechanism.value), iterations)
            self._alter(
                name,
                api.UserScramCredentialUpsertion(name, info, password.encode(), new_salt()),
                f"create user {name}",
            )

    def delete(self, name: str, mechanism: ScramMechanism) -> None:
        """Take a mechanism away from a user; without any left it is no user."""
        deletion = api.UserScramCredentialDeletion(name, api.ScramMechanism(mechanism.value))
        self._alter(name, deletion, f"delete user {name}")

    def _alter(self, name: str, alteration: Any, doing: str) -> None:
        try:
            self._admin.alter_user_scram_credentials(
                [alteration], request_timeout=self._to.timeout_s
            )[name].result(self._to.timeout_s)
        except KafkaException as error:
            raise failure(error, doing, self._to) from error
