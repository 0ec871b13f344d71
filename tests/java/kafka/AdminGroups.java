import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;

/** Groups and their offsets through Kafka's Admin client. */
final class AdminGroups {
    private AdminGroups() {
    }

    @SuppressWarnings("deprecation")  // what 3.9 has; 4.x has it still
    static ObjectNode run(Admin admin, String verb, JsonNode command) throws Exception {
        String group = command.path("group").asText();
        ObjectNode answer = Json.object();
        switch (verb) {
            case "list":
                admin.listConsumerGroups().all().get().forEach(
                        each -> answer.put(each.groupId(), String.valueOf(each.state().orElse(null))));
                return answer;
            case "describe":
                return describe(admin.describeConsumerGroups(List.of(group)).all().get().get(group));
            case "offsets":
                return Json.offsets(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
            case "alter_offsets":
                admin.alterConsumerGroupOffsets(group, Clients.offsets(command.get("offsets"))).all().get();
                return answer;
            case "delete_offsets":
                admin.deleteConsumerGroupOffsets(group, Set.copyOf(Json.partitions(command.get("partitions"))))
                        .all().get();
                return answer;
            case "delete":
                admin.deleteConsumerGroups(List.of(group)).all().get();
                return answer;
            case "remove":
                admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(
                        Set.of(new MemberToRemove(command.get("instance").asText())))).all().get();
                return answer;
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    @SuppressWarnings("deprecation")
    private static ObjectNode describe(ConsumerGroupDescription group) {
        ObjectNode answer = Json.object().put("state", group.state().toString())
                .put("assignor", group.partitionAssignor()).put("coordinator", group.coordinator().id());
        ArrayNode members = answer.putArray("members");
        group.members().forEach(each -> members.addObject().put("client", each.clientId())
                .put("instance", each.groupInstanceId().orElse(null)).put("host", each.host())
                .set("partitions", Json.partitions(each.assignment().topicPartitions())));
        return answer;
    }
}
