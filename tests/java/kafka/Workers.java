import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.runtime.Connect;

/** Workers of Kafka Connect in distributed mode; what they do is asked for over their REST interface. */
final class Workers {
    private final Map<String, Connect<?>> running = new ConcurrentHashMap<>();

    ObjectNode run(String verb, JsonNode command) {
        String name = command.get("name").asText();
        switch (verb) {
            case "start":
                Connect<?> started = new ConnectDistributed().startConnect(Json.texts(command.get("config")));
                running.put(name, started);
                return Json.object().put("url", started.rest().advertisedUrl().toString());
            case "stop":
                Connect<?> stopped = running.remove(name);
                stopped.stop();
                stopped.awaitStop();
                return Json.object();
            default:
                throw new IllegalArgumentException(verb);
        }
    }
}
