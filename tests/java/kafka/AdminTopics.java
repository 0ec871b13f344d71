import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;

/** Topics, their configs and their ends through Kafka's Admin client. */
final class AdminTopics {
    private AdminTopics() {
    }

    static ObjectNode run(Admin admin, String verb, JsonNode command) throws Exception {
        String topic = command.path("topic").asText();
        switch (verb) {
            case "create":
                NewTopic made = new NewTopic(topic, Optional.of(command.get("partitions").asInt()), Optional.empty());
                made.configs(Json.texts(command.path("configs")));
                boolean only = command.path("validate_only").asBoolean();
                admin.createTopics(List.of(made), new CreateTopicsOptions().validateOnly(only)).all().get();
                return Json.object();
            case "grow":
                admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(command.get("partitions").asInt())))
                        .all().get();
                return Json.object();
            case "delete":
                admin.deleteTopics(List.of(topic)).all().get();
                return Json.object();
            case "delete_by_id":
                TopicCollection ids = TopicCollection.ofTopicIds(List.of(Uuid.fromString(command.get("of").asText())));
                admin.deleteTopics(ids).all().get();
                return Json.object();
            case "list":
                ObjectNode listed = Json.object();
                admin.listTopics().names().get().forEach(each -> listed.put(each, true));
                return listed;
            case "describe":
                return describe(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic));
            case "configs":
                return configs(admin, command);
            case "alter":
                return alter(admin, command);
            case "offsets":
                return offsets(admin, command);
            case "delete_records":
                TopicPartition at = Json.partition(command.get("at").asText());
                RecordsToDelete before = RecordsToDelete.beforeOffset(command.get("before").asLong());
                return Json.object().put("low_watermark",
                        admin.deleteRecords(Map.of(at, before)).lowWatermarks().get(at).get().lowWatermark());
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    private static ObjectNode describe(TopicDescription topic) {
        ObjectNode answer = Json.object().put("topic_id", topic.topicId().toString());
        ArrayNode partitions = answer.put("internal", topic.isInternal()).putArray("partitions");
        topic.partitions().forEach(each -> partitions.addObject().put("leader", each.leader().id())
                .put("replicas", each.replicas().size()).put("isr", each.isr().size()));
        return answer;
    }

    private static ConfigResource resource(JsonNode command) {
        ConfigResource.Type type = ConfigResource.Type.valueOf(command.path("type").asText("TOPIC"));
        return new ConfigResource(type, command.get(type == ConfigResource.Type.TOPIC ? "topic" : "of").asText());
    }

    private static ObjectNode configs(Admin admin, JsonNode command) throws Exception {
        DescribeConfigsOptions all = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        ObjectNode answer = Json.object();
        for (ConfigEntry each : admin.describeConfigs(Set.of(resource(command)), all).all().get()
                .values().iterator().next().entries()) {
            answer.putObject(each.name()).put("value", each.value()).put("source", each.source().name())
                    .put("read_only", each.isReadOnly()).put("type", each.type().name())
                    .put("synonyms", each.synonyms().size()).put("documented", each.documentation() != null);
        }
        return answer;
    }

    private static ObjectNode alter(Admin admin, JsonNode command) throws Exception {
        AlterConfigOp.OpType how = AlterConfigOp.OpType.valueOf(command.path("how").asText("SET"));
        Collection<AlterConfigOp> changes = Json.texts(command.get("configs")).entrySet().stream()
                .map(each -> new AlterConfigOp(new ConfigEntry(each.getKey(), each.getValue()), how)).toList();
        admin.incrementalAlterConfigs(Map.of(resource(command), changes)).all().get();
        return Json.object();
    }

    private static ObjectNode offsets(Admin admin, JsonNode command) throws Exception {
        TopicPartition at = Json.partition(command.get("at").asText());
        ObjectNode answer = Json.object();
        Map<String, OffsetSpec> specs = Map.of("earliest", OffsetSpec.earliest(), "latest", OffsetSpec.latest(),
                "max_timestamp", OffsetSpec.maxTimestamp(), "timestamp",
                OffsetSpec.forTimestamp(command.path("timestamp").asLong()));
        for (Map.Entry<String, OffsetSpec> each : specs.entrySet()) {
            answer.put(each.getKey(),
                    admin.listOffsets(Map.of(at, each.getValue())).partitionResult(at).get().offset());
        }
        return answer;
    }
}
