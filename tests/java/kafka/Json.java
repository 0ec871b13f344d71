import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Kafka's values from and to JSON; a partition is "topic-0", as its own toString has it. */
final class Json {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private Json() {
    }

    static ObjectNode object() {
        return MAPPER.createObjectNode();
    }

    static Map<String, Object> config(JsonNode node) {
        Map<String, Object> config = new HashMap<>();
        node.fields().forEachRemaining(each -> config.put(each.getKey(), each.getValue().asText()));
        return config;
    }

    static Map<String, String> texts(JsonNode node) {
        Map<String, String> texts = new HashMap<>();
        node.fields().forEachRemaining(each -> texts.put(each.getKey(), each.getValue().asText(null)));
        return texts;
    }

    static List<String> strings(JsonNode node) {
        List<String> strings = new ArrayList<>();
        node.forEach(each -> strings.add(each.asText()));
        return strings;
    }

    static TopicPartition partition(String text) {
        int dash = text.lastIndexOf('-');
        return new TopicPartition(text.substring(0, dash), Integer.parseInt(text.substring(dash + 1)));
    }

    static List<TopicPartition> partitions(JsonNode node) {
        return strings(node).stream().map(Json::partition).toList();
    }

    static ArrayNode partitions(Collection<TopicPartition> partitions) {
        ArrayNode array = MAPPER.createArrayNode();
        new TreeSet<>(partitions.stream().map(TopicPartition::toString).toList()).forEach(array::add);
        return array;
    }

    static ObjectNode offsets(Map<TopicPartition, OffsetAndMetadata> offsets) {
        ObjectNode answer = object();
        offsets.forEach((at, offset) -> answer.put(at.toString(), offset == null ? -1 : offset.offset()));
        return answer;
    }
}
