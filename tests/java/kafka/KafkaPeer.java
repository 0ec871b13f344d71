import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** Kafka 4.3.1 whole: its clients, and what is built of them: the command-line tools. */
final class KafkaPeer extends ClientPeer {
    private final Tools tools = new Tools();

    public static void main(String[] args) throws Exception {
        new KafkaPeer().serve();
    }

    @Override
    protected ObjectNode run(JsonNode command) throws Exception {
        if (command.get("op").asText().equals("tool")) {
            return tools.run(command);
        }
        return super.run(command);
    }
}
