import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/** Kafka's authorizer over a given list of ACLs. */
public final class AuthorizerPeer extends Peer {
    public static void main(String[] arguments) throws Exception {
        new AuthorizerPeer().serve();
    }

    @Override
    protected int code(Throwable error) {
        return 0;
    }

    @Override
    protected ObjectNode run(JsonNode command) throws Exception {
        try (Metrics metrics = new Metrics(); StandardAuthorizer authorizer = new StandardAuthorizer()) {
            authorizer.withPluginMetrics(new PluginMetricsImpl(metrics, Map.of()));
            return answer(authorizer, command);
        }
    }

    private static ObjectNode answer(StandardAuthorizer authorizer, JsonNode command) throws Exception {
        authorizer.configure(Map.of(
            "super.users", command.get("super").asText(),
            "allow.everyone.if.no.acl.found", command.get("open").asText()));
        List<AclBinding> bindings = new ArrayList<>();
        command.get("acls").forEach(each -> bindings.add(binding(each)));
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        bindings.forEach(each -> acls.put(Uuid.randomUuid(), StandardAcl.fromAclBinding(each)));
        authorizer.loadSnapshot(acls);
        authorizer.completeInitialLoad();
        StringBuilder answers = new StringBuilder();
        for (JsonNode question : command.get("questions")) {
            answers.append(isAllowed(authorizer, question) ? '1' : '0');
        }
        ObjectNode answer = MAPPER.createObjectNode().put("answers", answers.toString());
        ArrayNode matched = answer.putArray("matched");
        for (JsonNode filter : command.get("filters")) {
            matched.add(matched(authorizer, filter, bindings));
        }
        return answer;
    }

    private static boolean isAllowed(StandardAuthorizer authorizer, JsonNode question) throws Exception {
        Context context = new Context(
            SecurityUtils.parseKafkaPrincipal(question.get(0).asText()),
            InetAddress.getByName(question.get(1).asText()));
        AclOperation operation = AclOperation.fromCode((byte) question.get(2).asInt());
        ResourceType type = ResourceType.fromCode((byte) question.get(3).asInt());
        if (question.get(4).isNull()) {
            return authorizer.authorizeByResourceType(context, operation, type) == AuthorizationResult.ALLOWED;
        }
        ResourcePattern resource = new ResourcePattern(type, question.get(4).asText(), PatternType.LITERAL);
        Action action = new Action(operation, resource, 1, false, false);
        return authorizer.authorize(context, List.of(action)).get(0) == AuthorizationResult.ALLOWED;
    }

    private static ArrayNode matched(StandardAuthorizer authorizer, JsonNode filter, List<AclBinding> bindings) {
        ArrayNode numbers = MAPPER.createArrayNode();
        ResourcePatternFilter pattern = new ResourcePatternFilter(
            ResourceType.fromCode((byte) filter.get(0).asInt()),
            filter.get(1).textValue(),
            PatternType.fromCode((byte) filter.get(2).asInt()));
        AccessControlEntryFilter entry = new AccessControlEntryFilter(
            filter.get(3).textValue(),
            filter.get(4).textValue(),
            AclOperation.fromCode((byte) filter.get(5).asInt()),
            AclPermissionType.fromCode((byte) filter.get(6).asInt()));
        for (AclBinding each : authorizer.acls(new AclBindingFilter(pattern, entry))) {
            numbers.add(bindings.indexOf(each));
        }
        return numbers;
    }

    private static AclBinding binding(JsonNode acl) {
        return new AclBinding(
            new ResourcePattern(
                ResourceType.fromCode((byte) acl.get(0).asInt()),
                acl.get(1).asText(),
                PatternType.fromCode((byte) acl.get(2).asInt())),
            new AccessControlEntry(
                acl.get(3).asText(),
                acl.get(4).asText(),
                AclOperation.fromCode((byte) acl.get(5).asInt()),
                AclPermissionType.fromCode((byte) acl.get(6).asInt())));
    }

    /** A request of somebody, from somewhere. */
    private record Context(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
