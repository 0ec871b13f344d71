"""AlterClientQuotas, API 49, v0-1.

Kept: Kafka's checks of entities, keys and values; all entries that are right change together;
`validate_only`. Not kept: an address has to be written as one, names are not resolved; an entity
that comes twice is refused whole; a value has to be finite.
"""

from tailrace.broker.authorization.required import WHY
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError, admin_error_code
from tailrace.broker.handlers import handles
from tailrace.broker.quotas.entity import QuotaEntity, entity_of
from tailrace.broker.quotas.table import Alteration, Change
from tailrace.core.access.acls.model import Operation
from tailrace.core.errors import CoreError
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import ALTER_CLIENT_QUOTAS
from tailrace.protocol.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    ResponseEntryData,
)

PARTS_READ = 100
"""Types and keys of one entry: there are fewer of both, so one with more is refused anyway."""
ENTRY_UNITS = 5
"""What it takes to check one entry."""


@handles(ALTER_CLIENT_QUOTAS)
async def alter_client_quotas(
    ctx: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Set and remove quotas; on disk, and in force here, before the answer."""
    pace = ctx.pace()
    if code := ctx.cluster_refusal(Operation.ALTER_CONFIGS):
        return AlterClientQuotasResponse(
            entries=[
                ResponseEntryData(
                    error_code=code, error_message=WHY[code], entity=entry.entity[:PARTS_READ]
                )
                async for entry in pace.each(request.entries)
            ]
        )
    alterations = [_alteration(entry) async for entry in pace.each(request.entries, ENTRY_UNITS)]
    outcomes: dict[QuotaEntity, KafkaError | None]
    try:
        outcomes = await ctx.broker.quotas.alter(
            alterations, pace, validate_only=request.validate_only
        )
    except CoreError as error:
        failure = KafkaError(admin_error_code(error), str(error))
        outcomes = dict.fromkeys((each.entity for each in alterations), failure)
    return AlterClientQuotasResponse(
        entries=[_entry(*each) async for each in pace.each(outcomes.items())]
    )


def _alteration(entry: EntryData) -> Alteration:
    parts, ops = entry.entity[:PARTS_READ], entry.ops[:PARTS_READ]
    entity = entity_of((each.entity_type, each.entity_name) for each in parts)
    changes = (Change(op.key, None if op.remove else op.value) for op in ops)
    return Alteration(entity, tuple(changes))


def _entry(entity: QuotaEntity, error: KafkaError | None) -> ResponseEntryData:
    return ResponseEntryData(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.detail,
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
    )
