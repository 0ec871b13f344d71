import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;

/** Kafka's Java clients behind a pipe: "producer.send", "consumer.poll", "admin.topics" and their like. */
class ClientPeer extends Peer {
    private final Clients clients = new Clients();
    private final Administration administration = new Administration();

    public static void main(String[] args) throws Exception {
        new ClientPeer().serve();
    }

    @Override
    protected ObjectNode run(JsonNode command) throws Exception {
        String[] op = command.get("op").asText().split("\\.", 2);
        switch (op[0]) {
            case "producer":
                return clients.produce(op[1], command);
            case "consumer":
                return clients.consume(op[1], command);
            case "admin":
                return administration.run(op[1], command);
            default:
                throw new IllegalArgumentException(op[0]);
        }
    }

    @Override
    protected int code(Throwable error) {
        return error instanceof ApiException ? Errors.forException(error).code() : 0;
    }
}
