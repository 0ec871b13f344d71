import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator;
import org.apache.kafka.common.security.oauthbearer.JwtValidatorException;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;

/** What Kafka's broker makes of tokens: the first line is its settings, each one after it a token. */
public final class JwtPeer extends Peer {
    private BrokerJwtValidator validator;

    public static void main(String[] arguments) throws Exception {
        new JwtPeer().serve();
    }

    @Override
    protected int code(Throwable error) {
        return 0;
    }

    @Override
    protected synchronized ObjectNode run(JsonNode command) throws Exception {
        ObjectNode answer = MAPPER.createObjectNode();
        if (command.has("keys")) {
            validator = configured(command);
            return answer;
        }
        try {
            OAuthBearerToken token = validator.validate(command.get("token").asText());
            return answer.put("user", token.principalName()).put("expires_at_ms", token.lifetimeMs());
        } catch (JwtValidatorException error) {
            return answer.put("refused", String.valueOf(error.getMessage()));
        }
    }

    private static BrokerJwtValidator configured(JsonNode command) {
        String url = command.get("keys").asText();
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", url);
        Map<String, Object> settings = new HashMap<>();
        settings.put("sasl.oauthbearer.jwks.endpoint.url", url);
        JsonNode audience = command.get("audience");
        settings.put("sasl.oauthbearer.expected.audience", audience.isNull() ? List.of() : List.of(audience.asText()));
        settings.put("sasl.oauthbearer.expected.issuer", command.get("issuer").asText());
        settings.put("sasl.oauthbearer.clock.skew.seconds", 30);
        settings.put("sasl.oauthbearer.scope.claim.name", "scope");
        settings.put("sasl.oauthbearer.sub.claim.name", "sub");
        BrokerJwtValidator made = new BrokerJwtValidator();
        made.configure(settings, "OAUTHBEARER", List.of(new AppConfigurationEntry(
            "unused", AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, Map.of())));
        return made;
    }
}
