"""What all connections of a broker authenticate with: mechanisms, users, settings, numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tailrace.broker.authentication.config import SaslConfig, SaslConfigs
from tailrace.core.access.oauth.validator import TokenValidator
from tailrace.core.access.sasl.mechanism import SaslMechanism
from tailrace.core.access.sasl.oauthbearer import OAUTHBEARER, OAuthBearer
from tailrace.core.access.sasl.plain import Plain
from tailrace.core.access.sasl.scram import Scram, ScramIdentity
from tailrace.core.access.tokens.tokens import DelegationTokens
from tailrace.core.access.users.codec import Credentials
from tailrace.core.access.users.credentials import ScramMechanism
from tailrace.core.access.users.lookup import UserLookup
from tailrace.core.access.users.password_checker import PasswordChecker
from tailrace.core.metadata.stored_entities import StoredEntities
from tailrace.core.runtime.budget import Budget
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.metrics import Metrics, counter, gauge
from tailrace.core.runtime.receive_buffer import ReceiveBuffer

STRANGERS_BYTES_MAX: Final = 16 * 1024 * 1024
"""Requests, and as much again of unfinished ones, of all who are not authenticated yet."""
STRANGER_BYTES: Final = 4096
"""What one of them may send before it needs room there."""


@dataclass(slots=True)
class AuthenticationMetrics:
    """Numbers of SASL listeners. Register them as `broker_authentication`."""

    strangers: int = gauge("connections that are not authenticated yet")
    succeeded_total: int = counter("connections that were authenticated")
    again_total: int = counter("times that a connection was authenticated again")
    failed_credentials_total: int = counter("exchanges of unknown users, or with wrong passwords")
    failed_mechanism_total: int = counter("choices of a mechanism that is not enabled")
    failed_order_total: int = counter("requests that may not come before or during authentication")
    failed_time_total: int = counter("connections that were not authenticated in time")
    failed_busy_total: int = counter("exchanges that nobody could check")
    expired_total: int = counter("connections closed because their session was over")


class Authentication:
    """Made with the broker, before its users are read. All calls come from the loop."""

    def __init__(
        self,
        network: SaslConfigs,
        users: StoredEntities[Credentials],
        secret: bytes,
        tokens: DelegationTokens,
        clock: Clock,
    ) -> None:
        """`secret`: of the cluster, see `UserLookup`."""
        self.configs = configs = network.sasl_by_listener
        self._tokens = tokens
        self.bearers = TokenValidator(network.sasl.oauth, clock)
        """For whatever takes bearer tokens by the settings of all listeners."""
        self._bearers = {
            each.oauth: TokenValidator(each.oauth, clock) for each in configs.values()
        } | {network.sasl.oauth: self.bearers}
        self.metrics = AuthenticationMetrics()
        self.users = UserLookup(users, secret)
        self.passwords = PasswordChecker(self.users)
        """For whatever takes passwords as they are: PLAIN, HTTP, gRPC."""
        self.strangers = Budget("request bytes before authentication", STRANGERS_BYTES_MAX)
        self.receive = ReceiveBuffer(
            STRANGER_BYTES, unfinished_bytes_max=STRANGERS_BYTES_MAX, first_bytes=STRANGER_BYTES
        )
        self.mechanisms = {
            listener: {name: self._mechanism(name, config) for name in config.mechanisms}
            for listener, config in configs.items()
        }
        """Of each listener, by their names."""

    def start(self, metrics: Metrics) -> None:
        """Begin to read the keys by which bearer tokens are checked."""
        by_listener = {"": self.bearers} | {
            listener: self._bearers[config.oauth]
            for listener, config in self.configs.items()
            if OAUTHBEARER in config.mechanisms
        }
        for listener, bearers in by_listener.items():
            metrics.register("broker_oauth_keys", bearers.keys.metrics, listener=listener)
        for oauth, bearers in self._bearers.items():
            if oauth.jwks_url:
                bearers.start()

    async def close(self) -> None:
        """Let the threads end. Idempotent."""
        await self.passwords.close()
        for bearers in self._bearers.values():
            await bearers.close()

    def _mechanism(self, name: str, config: SaslConfig) -> SaslMechanism:
        if name == Plain.name:
            return Plain(self.passwords)
        if name == OAUTHBEARER:
            return OAuthBearer(self._bearers[config.oauth].check)
        mechanism = next(each for each in ScramMechanism if each.sasl_name == name)

        def find(user: str, extensions: Mapping[str, str]) -> ScramIdentity | None:
            if extensions.get("tokenauth", "").lower() == "true":
                return self._bearer_of(mechanism, user)
            credential = self.users.credential(mechanism, user)
            return None if credential is None else ScramIdentity(credential, user)

        return Scram(mechanism, find, self.users.fake)

    def _bearer_of(self, mechanism: ScramMechanism, token_id: str) -> ScramIdentity | None:
        found = self._tokens.bearer(mechanism, token_id)
        if found is None:
            return None
        token, credential = found
        owner = token.owner.removeprefix("User:")
        return ScramIdentity(credential, owner, token.expires_ms, token.token_id)
