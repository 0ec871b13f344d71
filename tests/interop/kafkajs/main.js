// KafkaJS against a broker: what its users do first. Prints a line for each step that went well.
const assert = require('node:assert/strict')
const { Kafka, logLevel, CompressionTypes, ConfigResourceTypes } = require('kafkajs')

const [broker, topic] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'app', brokers: [broker], logLevel: logLevel.ERROR })
const PARTITIONS = 3

async function topics(admin) {
  const made = [{ topic, numPartitions: PARTITIONS, configEntries: [{ name: 'retention.ms', value: '86400000' }] }]
  assert.equal(await admin.createTopics({ topics: made, waitForLeaders: true }), true)
  assert.equal(await admin.createTopics({ topics: made }), false) // it exists
  assert.ok((await admin.listTopics()).includes(topic))
  const { topics: [found] } = await admin.fetchTopicMetadata({ topics: [topic] })
  assert.equal(found.partitions.length, PARTITIONS)
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic, configNames: ['retention.ms'] }
  const described = await admin.describeConfigs({ resources: [resource] })
  assert.equal(described.resources[0].configEntries[0].configValue, '86400000')
  const cluster = await admin.describeCluster()
  assert.equal(cluster.brokers.length, 1)
}

async function produce(admin) {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const messages = Array.from({ length: 300 }, (_, n) => ({ key: `k${n}`, value: `v${n}`, headers: { h: 'x' } }))
  await producer.send({ topic, messages, acks: -1, compression: CompressionTypes.GZIP })
  await producer.disconnect()
  const ends = await admin.fetchTopicOffsets(topic)
  assert.equal(ends.reduce((sum, each) => sum + Number(each.high), 0), 300)
}

// Reads as many messages in the group, commits behind them, and leaves.
async function read(groupId, count, of = topic) {
  const consumer = kafka.consumer({ groupId, heartbeatInterval: 300, maxWaitTimeInMs: 200 })
  const seen = []
  await consumer.connect()
  await consumer.subscribe({ topic: of, fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        seen.push([partition, message.offset, String(message.key), String(message.value)])
        const next = [{ topic: of, partition, offset: String(Number(message.offset) + 1) }]
        await consumer.commitOffsets(next)
        if (seen.length === count) resolve()
      },
    })
  })
  await consumer.disconnect()
  return seen
}

async function consume(admin) {
  const seen = await read(topic, 300)
  for (const [, , key, value] of seen) assert.equal(key.slice(1), value.slice(1))
  assert.equal(new Set(seen.map(each => each[2])).size, 300)
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, messages: [{ key: 'k', value: 'last', partition: 1 }] })
  await producer.disconnect()
  assert.deepEqual((await read(topic, 1)).map(each => each[3]), ['last']) // resumed behind the others
  const { groups: [group] } = await admin.describeGroups([topic])
  assert.equal(group.state, 'Empty')
}

// A transaction that aborts and one that commits, each with an offset of the group.
async function transactions(admin) {
  const to = `${topic}-out`
  const producer = kafka.producer({ transactionalId: topic, idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  for (const [offset, end] of [['1', 'abort'], ['2', 'commit']]) {
    const transaction = await producer.transaction()
    await transaction.send({ topic: to, messages: [{ value: end }] })
    const moved = { consumerGroupId: topic, topics: [{ topic, partitions: [{ partition: 2, offset }] }] }
    await transaction.sendOffsets(moved)
    await transaction[end]()
  }
  const last = await producer.transaction() // does not begin before the others are all over
  await last.send({ topic: to, messages: [{ value: 'last' }] })
  await last.commit()
  await producer.disconnect()
  const [found] = await admin.fetchOffsets({ groupId: topic, topics: [topic] })
  assert.equal(found.partitions.find(each => each.partition === 2).offset, '2')
  assert.deepEqual((await read(`${topic}-of`, 2, to)).map(each => each[3]), ['commit', 'last'])
}

async function offsets(admin) {
  await admin.setOffsets({ groupId: topic, topic, partitions: [{ partition: 1, offset: '0' }] })
  const [found] = await admin.fetchOffsets({ groupId: topic, topics: [topic] })
  assert.equal(found.partitions.find(each => each.partition === 1).offset, '0')
  await admin.deleteGroups([topic])
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '2' }] })
  const ends = await admin.fetchTopicOffsets(topic)
  assert.equal(ends.find(each => each.partition === 0).low, '2')
  await admin.deleteTopics({ topics: [topic] })
  assert.ok(!(await admin.listTopics()).includes(topic))
}

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  for (const step of [topics, produce, consume, transactions, offsets]) {
    await step(admin)
    console.log(`${step.name} ok`)
  }
  await admin.disconnect()
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
