"""Who a client is by its certificate: the rules that shorten the name in it. Pure.

    ssl.principal.mapping.rules=RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,DEFAULT

The first rule whose pattern matches the whole name gives the user; `DEFAULT` gives the name itself.
Source: KIP-371, org.apache.kafka.common.security.ssl.SslPrincipalMapper.
"""

import re
from typing import Any, Final, NamedTuple

from tailrace.core.runtime.expressions import BadExpression, capturing_expression

_RULE: Final = re.compile(
    r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])+)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)"
)
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d)", re.DOTALL)
RULES_CHARS_MAX: Final = 10_000


class NoUser(Exception):
    """A name that no rule is for; the client cannot be served."""


class _Rule(NamedTuple):
    """`pattern` None: the name as it is."""

    pattern: Any
    replacement: str
    case: str


class PrincipalRules:
    """The rules of `ssl.principal.mapping.rules`, in their order."""

    def __init__(self, text: str) -> None:
        """Read rules. Errors: ValueError, which names the rule that cannot be read."""
        self._rules = _parse(text)

    def user_of(self, name: str) -> str:
        """Return the user that a name in a certificate stands for. Errors: NoUser."""
        for rule in self._rules:
            if rule.pattern is None:
                return name
            found = rule.pattern.fullmatch(name)
            if found is not None:
                return _cased(_replaced(rule.replacement, found), rule.case)
        raise NoUser(f"no rule of ssl.principal.mapping.rules is for {name!r}")


def _parse(text: str) -> list[_Rule]:
    rules: list[_Rule] = []
    if len(text) > RULES_CHARS_MAX:
        raise ValueError(f"ssl.principal.mapping.rules: more than {RULES_CHARS_MAX} characters")
    text, at = text.strip(), 0
    while at < len(text):
        found = _RULE.match(text, at)
        if found is None:
            raise ValueError(
                f"ssl.principal.mapping.rules: {text[at:]!r} is not DEFAULT or "
                "RULE:pattern/replacement/[LU]"
            )
        rules.append(_rule(found))
        at = found.end()
    return rules or [_Rule(None, "", "")]


def _rule(found: "re.Match[str]") -> _Rule:
    if found[1]:
        return _Rule(None, "", "")
    pattern = found[2]
    try:
        compiled = capturing_expression(pattern)
    except BadExpression as error:
        raise ValueError(
            f"ssl.principal.mapping.rules: {pattern!r} is not a pattern of RE2: {error}"
        ) from error
    for escaped, group in _REFERENCE.findall(found[3]):
        if not escaped and int(group) > compiled.groups:
            raise ValueError(f"ssl.principal.mapping.rules: {pattern!r} has no group {group}")
    return _Rule(compiled, found[3], found[4])


def _replaced(replacement: str, found: Any) -> str:
    """Fill in `$n`; a backslash takes its meaning from what follows it."""
    return _REFERENCE.sub(lambda part: part[1] or found[int(part[2])] or "", replacement)


def _cased(text: str, case: str) -> str:
    if case == "L":
        return text.lower()
    return text.upper() if case == "U" else text
