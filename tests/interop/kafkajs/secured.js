// KafkaJS by the doors of stdin, one JSON object a line: writes a message and reads it in a group.
// Prints for each door its name, and its error or "ok".
const { readFileSync } = require('node:fs')
const { Kafka, logLevel } = require('kafkajs')

function client(door) {
  const settings = { clientId: 'app', brokers: [door.bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 2 } }
  if (door.ca) {
    settings.ssl = { ca: [readFileSync(door.ca)] }
    if (door.store) settings.ssl.cert = settings.ssl.key = readFileSync(door.store)
  }
  const { user: username, password, jwt: value } = door
  if (value) {
    settings.sasl = { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value }) }
  } else if (door.mechanism) {
    settings.sasl = { mechanism: door.mechanism.toLowerCase(), username, password }
  }
  return new Kafka(settings)
}

async function use(door) {
  const kafka = client(door)
  const producer = kafka.producer()
  try {
    await producer.connect()
    await producer.send({ topic: door.topic, messages: [{ value: 'value' }] })
  } finally {
    await producer.disconnect()
  }
  const consumer = kafka.consumer({ groupId: door.group, maxWaitTimeInMs: 200 })
  try {
    await consumer.connect()
    await consumer.subscribe({ topic: door.topic, fromBeginning: true })
    const read = await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      consumer.run({ eachMessage: async ({ message }) => resolve(String(message.value)) })
    })
    if (read !== 'value') throw new Error(`${read} was not written`)
  } finally {
    await consumer.disconnect()
  }
}

async function main() {
  for (const line of readFileSync(0, 'utf8').trim().split('\n')) {
    const door = JSON.parse(line)
    const outcome = await use(door).then(() => 'ok', error => `${error.name}: ${error.message}`)
    console.log(`${door.name}: ${outcome}`)
  }
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
