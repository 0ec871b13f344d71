"""What anybody who logs in is compared with: users' credentials, and those of users that are not.

Each look-up is a plain call. Users that are not there have the form of most that are, which is
counted as they change.
"""

from collections import Counter
from typing import Final

from tailrace.core.access.users.codec import Credentials
from tailrace.core.access.users.credentials import ScramCredential, ScramMechanism
from tailrace.core.access.users.fakes import (
    USUAL_FORM,
    CredentialForm,
    fake_credential,
    form_of,
    most_usual,
)
from tailrace.core.metadata.stored_entities import StoredEntities

CHECKED_BY: Final = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
"""A password that comes as it is: by the first credential that its user has."""


class UserLookup:
    """The users of a cluster, as doors see them. All calls come from the loop."""

    def __init__(self, users: StoredEntities[Credentials], secret: bytes) -> None:
        """`secret`: of the cluster; nobody else can tell a user that is not from one that is.

        Make it before `users` start: it counts them as they come.
        """
        self._users = users
        self._secret = secret
        self._counted: dict[str, dict[ScramMechanism, CredentialForm]] = {}
        self._forms = {each: Counter[CredentialForm]() for each in ScramMechanism}
        users.listen(self._count)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """Return what a user proves itself by; None: it cannot by this mechanism."""
        return (self._users.get(user) or {}).get(mechanism)

    def fake(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """Return a credential that no password fits, the same each time, like those of others."""
        form = most_usual(self._forms[mechanism]) or USUAL_FORM
        return fake_credential(self._secret, mechanism, user, form)

    def to_check(self, user: str) -> tuple[ScramMechanism, ScramCredential, bool]:
        """Return by what a password is checked, and whether the user is there: else by a fake."""
        credentials = self._users.get(user) or {}
        for mechanism in CHECKED_BY:
            if mechanism in credentials:
                return mechanism, credentials[mechanism], True
        usual = next((each for each in CHECKED_BY if self._forms[each]), CHECKED_BY[0])
        return usual, self.fake(usual, user), False

    def _count(self, user: str) -> None:
        for mechanism, form in self._counted.pop(user, {}).items():
            self._forms[mechanism][form] -= 1
            if not self._forms[mechanism][form]:
                del self._forms[mechanism][form]
        credentials = self._users.get(user)
        if credentials is None:
            return
        forms = {mechanism: form_of(each) for mechanism, each in credentials.items()}
        self._counted[user] = forms
        for mechanism, form in forms.items():
            self._forms[mechanism][form] += 1
