import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Producers and consumers by name: a test opens one, calls its methods, closes it. */
final class Clients {
    private static final Duration POLL = Duration.ofMillis(100);

    private final Map<String, KafkaProducer<String, String>> producers = new ConcurrentHashMap<>();
    private final Map<String, KafkaConsumer<String, String>> consumers = new ConcurrentHashMap<>();
    private final Map<String, ArrayNode> rebalances = new ConcurrentHashMap<>();

    ObjectNode produce(String verb, JsonNode command) throws Exception {
        String name = command.get("name").asText();
        if (verb.equals("open")) {
            Map<String, Object> config = Json.config(command.get("config"));
            producers.put(name, new KafkaProducer<>(config, new StringSerializer(), new StringSerializer()));
            return Json.object();
        }
        KafkaProducer<String, String> producer = producers.get(name);
        switch (verb) {
            case "send":
                return send(producer, command);
            case "init":
                producer.initTransactions();
                break;
            case "begin":
                producer.beginTransaction();
                break;
            case "offsets":
                KafkaConsumer<String, String> of = consumers.get(command.get("consumer").asText());
                producer.sendOffsetsToTransaction(offsets(command.get("offsets")), of.groupMetadata());
                break;
            case "commit":
                producer.commitTransaction();
                break;
            case "abort":
                producer.abortTransaction();
                break;
            case "partitions":
                return Json.object().put("count", producer.partitionsFor(command.get("topic").asText()).size());
            case "close":
                producers.remove(name).close(Duration.ofSeconds(10));
                break;
            default:
                throw new IllegalArgumentException(verb);
        }
        return Json.object();
    }

    ObjectNode consume(String verb, JsonNode command) throws Exception {
        String name = command.get("name").asText();
        if (verb.equals("open")) {
            Map<String, Object> config = Json.config(command.get("config"));
            consumers.put(name, new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer()));
            return Json.object();
        }
        KafkaConsumer<String, String> consumer = consumers.get(name);
        ObjectNode answer = Json.object();
        switch (verb) {
            case "subscribe":
                subscribe(name, consumer, command);
                break;
            case "assign":
                consumer.assign(Json.partitions(command.get("partitions")));
                break;
            case "poll":
                return poll(consumer, command);
            case "assignment":
                answer.set("partitions", Json.partitions(consumer.assignment()));
                answer.set("rebalances", rebalances.get(name).deepCopy());
                answer.put("member", consumer.groupMetadata().memberId());
                break;
            case "seek":
                offsets(command.get("offsets")).forEach(consumer::seek);
                break;
            case "position":
                return answer.put("offset", consumer.position(Json.partition(command.get("partition").asText())));
            case "commit":
                consumer.commitSync(offsets(command.get("offsets")));
                break;
            case "committed":
                return Json.offsets(consumer.committed(Json.partitions(command.get("partitions")).stream()
                        .collect(java.util.stream.Collectors.toSet())));
            case "times":
                return times(consumer, command);
            case "ends":
                consumer.endOffsets(Json.partitions(command.get("partitions")))
                        .forEach((at, offset) -> answer.put(at.toString(), offset));
                break;
            case "pause":
                consumer.pause(Json.partitions(command.get("partitions")));
                break;
            case "close":
                consumers.remove(name).close(Duration.ofSeconds(10));
                break;
            default:
                throw new IllegalArgumentException(verb);
        }
        return answer;
    }

    private static ObjectNode send(KafkaProducer<String, String> producer, JsonNode command) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        Integer partition = command.has("partition") ? command.get("partition").asInt() : null;
        long timestamp = command.path("timestamp").asLong(-1);
        for (JsonNode value : command.get("values")) {
            ProducerRecord<String, String> record = new ProducerRecord<>(
                    command.get("topic").asText(), partition, timestamp < 0 ? null : timestamp++,
                    command.path("key").asText(null), value.asText(null));
            record.headers().add("h", "x".getBytes(StandardCharsets.US_ASCII));
            sent.add(producer.send(record));
        }
        producer.flush();
        ObjectNode answer = Json.object();
        ArrayNode offsets = answer.putArray("offsets");
        for (Future<RecordMetadata> each : sent) {
            offsets.add(each.get().offset());
        }
        return answer;
    }

    private void subscribe(String name, KafkaConsumer<String, String> consumer, JsonNode command)
            throws ReflectiveOperationException {
        ArrayNode seen = Json.object().putArray("seen");
        rebalances.put(name, seen);
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> gone) {
                seen.addObject().set("revoked", Json.partitions(gone));
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> got) {
                seen.addObject().set("assigned", Json.partitions(got));
            }
        };
        if (command.has("regex")) { // matched by the broker; only clients since 4.0 have the class
            Class<?> type = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
            Object regex = type.getConstructor(String.class).newInstance(command.get("regex").asText());
            consumer.getClass().getMethod("subscribe", type, ConsumerRebalanceListener.class)
                .invoke(consumer, regex, listener);
        } else if (command.has("pattern")) {
            consumer.subscribe(Pattern.compile(command.get("pattern").asText()), listener);
        } else {
            consumer.subscribe(Json.strings(command.get("topics")), listener);
        }
    }

    /** Polls until there are `count` records, at most `within_ms`; with 0 records asked for, once. */
    private static ObjectNode poll(KafkaConsumer<String, String> consumer, JsonNode command) {
        ObjectNode answer = Json.object();
        ArrayNode records = answer.putArray("records");
        long until = System.nanoTime() + command.path("within_ms").asLong(20_000) * 1_000_000;
        do {
            for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                records.addObject().put("at", record.topic() + "-" + record.partition())
                        .put("offset", record.offset()).put("key", record.key()).put("value", record.value())
                        .put("timestamp", record.timestamp()).put("headers", record.headers().toArray().length)
                        .put("epoch", record.leaderEpoch().orElse(-1));
            }
        } while (records.size() < command.path("count").asInt() && System.nanoTime() < until);
        return answer;
    }

    private static ObjectNode times(KafkaConsumer<String, String> consumer, JsonNode command) {
        Map<TopicPartition, Long> asked = new HashMap<>();
        command.get("times").fields().forEachRemaining(
                each -> asked.put(Json.partition(each.getKey()), each.getValue().asLong()));
        ObjectNode answer = Json.object();
        consumer.offsetsForTimes(asked).forEach(
                (at, found) -> answer.put(at.toString(), found == null ? -1 : found.offset()));
        return answer;
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode node) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        node.fields().forEachRemaining(each -> offsets.put(
                Json.partition(each.getKey()), new OffsetAndMetadata(each.getValue().asLong(), "noted")));
        return offsets;
    }
}
