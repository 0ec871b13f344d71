import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/** The cluster, its disks, leaders, features and quotas through Kafka's Admin client. */
final class AdminCluster {
    private AdminCluster() {
    }

    static ObjectNode run(Admin admin, String verb, JsonNode command) throws Exception {
        ObjectNode answer = Json.object();
        switch (verb) {
            case "describe":
                DescribeClusterResult found = admin.describeCluster();
                return answer.put("cluster_id", found.clusterId().get()).put("nodes", found.nodes().get().size())
                        .put("controller", found.controller().get().id());
            case "log_dirs":
                return logDirs(admin, command.get("broker").asInt());
            case "elect":
                TopicPartition at = Json.partition(command.get("at").asText());
                Optional<Throwable> error = admin.electLeaders(ElectionType.PREFERRED, Set.of(at))
                        .partitions().get().getOrDefault(at, Optional.empty());
                return answer.put("outcome", error.map(each -> each.getClass().getSimpleName()).orElse("elected"));
            case "reassignments":
                return answer.put("count", admin.listPartitionReassignments().reassignments().get().size());
            case "reassign":
                List<Integer> to = Arrays.asList(command.get("to").asInt());
                admin.alterPartitionReassignments(Map.of(Json.partition(command.get("at").asText()),
                        Optional.of(new NewPartitionReassignment(to)))).all().get();
                return answer;
            case "features":
                admin.describeFeatures().featureMetadata().get().finalizedFeatures().forEach(
                        (name, range) -> answer.put(name, range.maxVersionLevel()));
                return answer;
            case "alter_quotas":
                admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
                        new ClientQuotaEntity(Json.texts(command.get("entity"))),
                        List.of(new ClientQuotaAlteration.Op(command.get("key").asText(),
                                command.path("value").isNumber() ? command.get("value").asDouble() : null))))).all().get();
                return answer;
            case "quotas":
                admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().forEach(
                        (entity, values) -> values.forEach(
                                (key, value) -> answer.put(entity.entries() + " " + key, value)));
                return answer;
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    private static ObjectNode logDirs(Admin admin, int broker) throws Exception {
        ObjectNode answer = Json.object();
        Map<String, LogDirDescription> found = admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker);
        found.values().forEach(each -> each.replicaInfos().forEach(
                (at, replica) -> answer.put(at.toString(), replica.size())));
        return answer;
    }
}
