import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/** Kafka Streams: a word count whose table is a store with a changelog. */
final class Streams {
    private static final String STORE = "counts";

    private final Map<String, KafkaStreams> running = new ConcurrentHashMap<>();

    ObjectNode run(String verb, JsonNode command) throws Exception {
        String name = command.get("name").asText();
        ObjectNode answer = Json.object();
        switch (verb) {
            case "start":
                return start(name, command);
            case "count":
                ReadOnlyKeyValueStore<String, Long> store = running.get(name).store(
                        StoreQueryParameters.fromNameAndType(STORE, QueryableStoreTypes.keyValueStore()));
                Long found = store.get(command.get("word").asText());
                return answer.put("count", found == null ? 0 : found);
            case "close":
                return answer.put("closed", running.remove(name).close(
                        CloseOptions.timeout(Duration.ofSeconds(20))
                                .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP)));
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    /** Starts the application and waits until it runs; `wipe` throws its local state away first. */
    private ObjectNode start(String name, JsonNode command) throws Exception {
        Properties config = new Properties();
        config.putAll(Json.config(command.get("config")));
        KafkaStreams streams = new KafkaStreams(
                wordCount(command.get("input").asText(), command.get("output").asText()).build(), config);
        AtomicLong count = new AtomicLong();
        streams.setGlobalStateRestoreListener(new Counting(count));
        CompletableFuture<KafkaStreams.State> settled = new CompletableFuture<>();
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING || now == KafkaStreams.State.ERROR) {
                settled.complete(now); // another rebalance may follow at once: it created topics of its own
            }
        });
        if (command.path("wipe").asBoolean()) {
            streams.cleanUp();
        }
        running.put(name, streams);
        streams.start();
        KafkaStreams.State reached = settled.get(40, TimeUnit.SECONDS);
        return Json.object().put("state", reached.name()).put("restored", count.get());
    }

    private static StreamsBuilder wordCount(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count(Materialized.as(STORE))
                .toStream().mapValues(String::valueOf)
                .to(output, Produced.with(Serdes.String(), Serdes.String()));
        return builder;
    }

    /** Counts the records that stores were restored from. */
    private record Counting(AtomicLong count) implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition of, String store, long from, long to) {
        }

        @Override
        public void onBatchRestored(TopicPartition of, String store, long end, long number) {
            count.addAndGet(number);
        }

        @Override
        public void onRestoreEnd(TopicPartition of, String store, long total) {
        }
    }
}
