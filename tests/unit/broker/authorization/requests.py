"""Requests of many APIs, each about the topic, the group and the transactional id of the tests."""

from tailrace.protocol.kafka.messages import (
    add_partitions_to_txn,
    alter_client_quotas,
    alter_user_scram_credentials,
    consumer_group_heartbeat,
    delete_records,
    fetch,
    join_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    txn_offset_commit,
    write_txn_markers,
)
from tailrace.protocol.records.batch import TRANSACTIONAL
from tailrace.protocol.records.record import Producer, Record, build_batch

TOPIC, GROUP, ID = "t", "g", "x"


def produced(*, transactional: bool = False) -> produce.ProduceRequest:
    attributes = TRANSACTIONAL if transactional else 0
    records = build_batch(
        [Record(key=b"k", value=b"v")], attributes=attributes, producer=Producer(7, 0, 0)
    )
    data = produce.PartitionProduceData(index=0, records=memoryview(records))
    return produce.ProduceRequest(
        transactional_id=ID if transactional else None,
        acks=-1,
        timeout_ms=1000,
        topic_data=[produce.TopicProduceData(name=TOPIC, partition_data=[data])],
    )


def fetched(replica: int = -1) -> fetch.FetchRequest:
    asked = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return fetch.FetchRequest(
        replica_id=replica,
        max_wait_ms=0,
        max_bytes=1000,
        topics=[fetch.FetchTopic(topic=TOPIC, partitions=[asked])],
    )


def of_metadata(name: str = TOPIC) -> metadata.MetadataRequest:
    return metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name)])


def committed() -> offset_commit.OffsetCommitRequest:
    partition = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    asked = offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    return offset_commit.OffsetCommitRequest(group_id=GROUP, topics=[asked])


def committed_in_transaction() -> txn_offset_commit.TxnOffsetCommitRequest:
    of = txn_offset_commit
    partition = of.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    asked = of.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    return of.TxnOffsetCommitRequest(transactional_id=ID, group_id=GROUP, topics=[asked])


def offsets_of(version: int) -> offset_fetch.OffsetFetchRequest:
    of = offset_fetch
    if version < 8:
        old = of.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
        return of.OffsetFetchRequest(group_id=GROUP, topics=[old])
    asked = of.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    return of.OffsetFetchRequest(
        groups=[of.OffsetFetchRequestGroup(group_id=GROUP, topics=[asked])]
    )


def added(version: int) -> add_partitions_to_txn.AddPartitionsToTxnRequest:
    of = add_partitions_to_txn
    topics = [of.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])]
    if version < 4:
        return of.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID, v3_and_below_topics=topics
        )
    asked = of.AddPartitionsToTxnTransaction(transactional_id=ID, topics=topics)
    return of.AddPartitionsToTxnRequest(transactions=[asked])


def markers() -> write_txn_markers.WriteTxnMarkersRequest:
    of = write_txn_markers
    asked = of.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])
    marker = of.WritableTxnMarker(producer_id=7, producer_epoch=0, topics=[asked])
    return of.WriteTxnMarkersRequest(markers=[marker])


def listed() -> list_offsets.ListOffsetsRequest:
    asked = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
    return list_offsets.ListOffsetsRequest(
        topics=[list_offsets.ListOffsetsTopic(name=TOPIC, partitions=[asked])]
    )


def ends() -> offset_for_leader_epoch.OffsetForLeaderEpochRequest:
    of = offset_for_leader_epoch
    asked = of.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    return of.OffsetForLeaderEpochRequest(
        topics=[of.OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])]
    )


def deleted_records() -> delete_records.DeleteRecordsRequest:
    asked = delete_records.DeleteRecordsPartition(partition_index=0, offset=0)
    return delete_records.DeleteRecordsRequest(
        topics=[delete_records.DeleteRecordsTopic(name=TOPIC, partitions=[asked])]
    )


def deleted_offsets() -> offset_delete.OffsetDeleteRequest:
    asked = offset_delete.OffsetDeleteRequestPartition(partition_index=0)
    return offset_delete.OffsetDeleteRequest(
        group_id=GROUP,
        topics=[offset_delete.OffsetDeleteRequestTopic(name=TOPIC, partitions=[asked])],
    )


def altered_quotas() -> alter_client_quotas.AlterClientQuotasRequest:
    of = alter_client_quotas
    entity = [of.EntityData(entity_type="nobody's", entity_name="a")]
    return of.AlterClientQuotasRequest(entries=[of.EntryData(entity=entity)])


def joining() -> join_group.JoinGroupRequest:
    protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=b"")
    return join_group.JoinGroupRequest(
        group_id=GROUP, session_timeout_ms=10_000, protocol_type="consumer", protocols=[protocol]
    )


def beating() -> consumer_group_heartbeat.ConsumerGroupHeartbeatRequest:
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", member_epoch=3, subscribed_topic_names=[TOPIC]
    )


def altered_users() -> alter_user_scram_credentials.AlterUserScramCredentialsRequest:
    of = alter_user_scram_credentials
    return of.AlterUserScramCredentialsRequest(
        deletions=[of.ScramCredentialDeletion(name="a", mechanism=1)] * 2
    )
