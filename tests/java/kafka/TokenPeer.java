import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.Supplier;
import org.apache.kafka.common.message.CreateDelegationTokenRequestData;
import org.apache.kafka.common.message.CreateDelegationTokenResponseData;
import org.apache.kafka.common.message.ExpireDelegationTokenRequestData;
import org.apache.kafka.common.message.ExpireDelegationTokenResponseData;
import org.apache.kafka.common.message.RenewDelegationTokenRequestData;
import org.apache.kafka.common.message.RenewDelegationTokenResponseData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.DelegationTokenRecord;
import org.apache.kafka.common.metadata.RemoveDelegationTokenRecord;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.controller.DelegationTokenControlManager;
import org.apache.kafka.metadata.DelegationTokenData;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/** Kafka's controller of delegation tokens, whose records are applied at once; its clock is told. */
public final class TokenPeer extends Peer {
    private final Map<String, byte[]> hmacs = new HashMap<>();
    private final DelegationTokenCache cache = new DelegationTokenCache(List.of("SCRAM-SHA-256"));
    private DelegationTokenControlManager manager;
    private long nowMs;

    public static void main(String[] arguments) throws Exception {
        new TokenPeer().serve();
    }

    @Override
    protected int code(Throwable error) {
        return 0;
    }

    @Override
    protected synchronized ObjectNode run(JsonNode command) throws Exception {
        nowMs = command.path("now_ms").asLong();
        switch (command.get("op").asText()) {
            case "configure":
                configure(command);
                return MAPPER.createObjectNode();
            case "create":
                return create(command);
            case "renew":
                return renew(command);
            default:
                return expire(command);
        }
    }

    private void configure(JsonNode command) throws Exception {
        Class<?> kind = Class.forName("org.apache.kafka.controller.DelegationTokenControlManager$Builder");
        Constructor<?> constructor = kind.getDeclaredConstructor();
        constructor.setAccessible(true);
        Object builder = constructor.newInstance();
        set(builder, "setTokenCache", DelegationTokenCache.class, cache);
        set(builder, "setDelegationTokenSecretKey", String.class, command.get("secret").asText());
        set(builder, "setDelegationTokenMaxLifeMs", long.class, command.get("lifetime_ms").asLong());
        set(builder, "setDelegationTokenExpiryTimeMs", long.class, command.get("renewal_ms").asLong());
        Method build = kind.getDeclaredMethod("build");
        build.setAccessible(true);
        manager = (DelegationTokenControlManager) build.invoke(builder);
        Field time = DelegationTokenControlManager.class.getDeclaredField("time");
        time.setAccessible(true);
        time.set(manager, new Told());
    }

    private static void set(Object builder, String name, Class<?> kind, Object value) throws Exception {
        Method method = builder.getClass().getDeclaredMethod(name, kind);
        method.setAccessible(true);
        method.invoke(builder, value);
    }

    private ObjectNode create(JsonNode command) throws Exception {
        List<CreateDelegationTokenRequestData.CreatableRenewers> renewers = new ArrayList<>();
        command.get("renewers").forEach(each -> renewers.add(
            new CreateDelegationTokenRequestData.CreatableRenewers()
                .setPrincipalType("User").setPrincipalName(each.asText())));
        Object result = manager.createDelegationToken(context(command), new CreateDelegationTokenRequestData()
            .setOwnerPrincipalType("User").setOwnerPrincipalName(command.get("owner").asText())
            .setRenewers(renewers).setMaxLifetimeMs(command.get("period_ms").asLong()), MetadataVersion.latestTesting());
        CreateDelegationTokenResponseData response = (CreateDelegationTokenResponseData) of(result, "response");
        hmacs.put(response.tokenId(), response.hmac());
        apply(result);
        return MAPPER.createObjectNode().put("code", response.errorCode()).put("token_id", response.tokenId())
            .put("hmac", java.util.HexFormat.of().formatHex(response.hmac()))
            .put("issued_ms", response.issueTimestampMs()).put("expires_ms", response.expiryTimestampMs())
            .put("ends_ms", response.maxTimestampMs());
    }

    private ObjectNode renew(JsonNode command) throws Exception {
        Object result = manager.renewDelegationToken(context(command), new RenewDelegationTokenRequestData()
            .setHmac(hmac(command)).setRenewPeriodMs(command.get("period_ms").asLong()), MetadataVersion.latestTesting());
        RenewDelegationTokenResponseData response = (RenewDelegationTokenResponseData) of(result, "response");
        apply(result);
        return MAPPER.createObjectNode().put("code", response.errorCode()).put("expires_ms", response.expiryTimestampMs());
    }

    private ObjectNode expire(JsonNode command) throws Exception {
        Object result = manager.expireDelegationToken(context(command), new ExpireDelegationTokenRequestData()
            .setHmac(hmac(command)).setExpiryTimePeriodMs(command.get("period_ms").asLong()), MetadataVersion.latestTesting());
        ExpireDelegationTokenResponseData response = (ExpireDelegationTokenResponseData) of(result, "response");
        apply(result);
        return MAPPER.createObjectNode().put("code", response.errorCode()).put("expires_ms", response.expiryTimestampMs());
    }

    private byte[] hmac(JsonNode command) {
        return hmacs.getOrDefault(command.get("token_id").asText(), new byte[] {1});
    }

    private static ControllerRequestContext context(JsonNode command) {
        KafkaPrincipal principal = new KafkaPrincipal("User", command.get("principal").asText());
        return new ControllerRequestContext(new RequestHeaderData(), principal, OptionalLong.empty());
    }

    /** Reads a part of a ControllerResult, whose class is the package's own. */
    private static Object of(Object result, String name) throws Exception {
        Method method = result.getClass().getMethod(name);
        method.setAccessible(true);
        return method.invoke(result);
    }

    private void apply(Object result) throws Exception {
        for (Object each : (List<?>) of(result, "records")) {
            Object record = ((ApiMessageAndVersion) each).message();
            if (record instanceof DelegationTokenRecord) {
                DelegationTokenData data = DelegationTokenData.fromRecord((DelegationTokenRecord) record);
                String id = data.tokenInformation().tokenId();
                cache.updateCache(new DelegationToken(data.tokenInformation(), hmacs.get(id)), Map.of());
            } else {
                cache.removeCache(((RemoveDelegationTokenRecord) record).tokenId());
            }
        }
    }

    /** The time that a command says. */
    private final class Told implements Time {
        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }
}
