import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** Kafka 4.3.1 whole: its clients, and what is built of them: command-line tools, Streams, Connect. */
final class KafkaPeer extends ClientPeer {
    private final Tools tools = new Tools();
    private final Streams streams = new Streams();
    private final Workers workers = new Workers();

    public static void main(String[] args) throws Exception {
        new KafkaPeer().serve();
    }

    @Override
    protected ObjectNode run(JsonNode command) throws Exception {
        String[] op = command.get("op").asText().split("\\.", 2);
        switch (op[0]) {
            case "tool":
                return tools.run(command);
            case "streams":
                return streams.run(op[1], command);
            case "connect":
                return workers.run(op[1], command);
            case "property":
                System.setProperty(command.get("name").asText(), command.get("value").asText());
                return Json.object();
            default:
                return super.run(command);
        }
    }
}
