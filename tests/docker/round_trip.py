"""python round_trip.py CLIENT BOOTSTRAP TOPIC: records there and back, as a member of a group.

Runs on the host and in containers, so it imports nothing but the client. Prints what it read.
"""

import asyncio
import sys

RECORDS = [f"record {number}" for number in range(20)]
WITHIN_S = 60


async def by_aiokafka(bootstrap: str, topic: str) -> list[str]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for record in RECORDS:
            await producer.send_and_wait(topic, record.encode())
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest"
    )
    async with asyncio.timeout(WITHIN_S), consumer:
        read = [(await consumer.getone()).value.decode() for _ in RECORDS]
        await consumer.commit()
    return read


def by_confluent_kafka(bootstrap: str, topic: str) -> list[str]:
    from confluent_kafka import Consumer, Producer

    to = {"bootstrap.servers": bootstrap, "metadata.recovery.strategy": "none"}
    producer = Producer(to)
    for record in RECORDS:
        producer.produce(topic, record.encode())
    assert producer.flush(WITHIN_S) == 0
    consumer = Consumer({**to, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        messages = consumer.consume(len(RECORDS), WITHIN_S)
        consumer.commit(asynchronous=False)
        return [(message.value() or b"").decode() for message in messages]
    finally:
        consumer.close()


def main(client: str, bootstrap: str, topic: str) -> None:
    if client == "aiokafka":
        read = asyncio.run(by_aiokafka(bootstrap, topic))
    else:
        read = by_confluent_kafka(bootstrap, topic)
    assert read == RECORDS, read
    print(f"{client} read {len(read)} records")


if __name__ == "__main__":
    main(*sys.argv[1:])
