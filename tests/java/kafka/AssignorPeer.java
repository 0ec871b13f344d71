import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Kafka's server-side assignors. A topic is a small number: the low half of its id. */
public final class AssignorPeer extends Peer {
    public static void main(String[] arguments) throws Exception {
        new AssignorPeer().serve();
    }

    @Override
    protected int code(Throwable error) {
        return 0;
    }

    @Override
    protected ObjectNode run(JsonNode command) throws Exception {
        Map<Uuid, Integer> counts = new HashMap<>();
        command.get("topics").fields().forEachRemaining(
            each -> counts.put(topic(each.getKey()), each.getValue().asInt()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (JsonNode member : command.get("members")) {
            members.put(member.get("id").asText(), member(member, owners));
        }
        SubscriptionType type = command.get("homogeneous").asBoolean()
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        ConsumerGroupPartitionAssignor assignor = command.get("assignor").asText().equals("range")
            ? new RangeAssignor() : new UniformAssignor();
        GroupAssignment result = assignor.assign(new GroupSpecImpl(members, type, owners), describer(counts));
        ObjectNode answer = MAPPER.createObjectNode();
        result.members().forEach((id, assignment) -> answer.set(id, partitions(assignment.partitions())));
        return MAPPER.createObjectNode().set("members", answer);
    }

    private static MemberSubscriptionAndAssignmentImpl member(
            JsonNode member, Map<Uuid, Map<Integer, String>> owners) {
        Set<Uuid> topics = new TreeSet<>();
        member.get("topics").forEach(each -> topics.add(topic(each.asText())));
        Map<Uuid, Set<Integer>> target = new TreeMap<>();
        member.get("target").fields().forEachRemaining(each -> {
            Set<Integer> partitions = target.computeIfAbsent(topic(each.getKey()), id -> new TreeSet<>());
            each.getValue().forEach(partition -> {
                partitions.add(partition.asInt());
                owners.computeIfAbsent(topic(each.getKey()), id -> new HashMap<>())
                    .put(partition.asInt(), member.get("id").asText());
            });
        });
        Optional<String> instance = Optional.ofNullable(member.get("instance").textValue());
        return new MemberSubscriptionAndAssignmentImpl(
            Optional.empty(), instance, topics, new Assignment(target));
    }

    private static SubscribedTopicDescriber describer(Map<Uuid, Integer> counts) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return counts.getOrDefault(topic, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
    }

    private static ObjectNode partitions(Map<Uuid, Set<Integer>> assignment) {
        ObjectNode answer = MAPPER.createObjectNode();
        assignment.forEach((topic, partitions) -> {
            ArrayNode array = answer.putArray(Long.toString(topic.getLeastSignificantBits()));
            new TreeSet<>(partitions).forEach(array::add);
        });
        return answer;
    }

    private static Uuid topic(String number) {
        return new Uuid(0, Long.parseLong(number));
    }
}
