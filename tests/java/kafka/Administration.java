import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.Admin;

/** Kafka's Admin client, one per address: "topics.create", "groups.describe" and their like. */
final class Administration {
    private final Map<String, Admin> admins = new ConcurrentHashMap<>();

    ObjectNode run(String verb, JsonNode command) throws Exception {
        Admin admin = admins.computeIfAbsent(command.get("bootstrap").asText(), at -> Admin.create(Map.of(
                "bootstrap.servers", at, "default.api.timeout.ms", "20000", "request.timeout.ms", "15000")));
        String[] words = verb.split("\\.", 2);
        switch (words[0]) {
            case "topics":
                return AdminTopics.run(admin, words[1], command);
            case "cluster":
                return AdminCluster.run(admin, words[1], command);
            case "groups":
                return AdminGroups.run(admin, words[1], command);
            case "transactions":
                return AdminTransactions.run(admin, words[1], command);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }
}
