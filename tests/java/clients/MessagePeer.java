import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.AbstractRequest;

/**
 * Kafka's own message classes behind stdin and stdout, one line in, one line out.
 *
 *   hex  CLASS VERSION HEX    -> "HEX JSON": decoded, encoded again, and what it held; all bytes must be used
 *   json CLASS VERSION JSON   -> "HEX"
 *   rest KEY   VERSION HEX    -> bytes that Kafka leaves unread of a request body, without complaint
 *
 * CLASS is a full class name of a generated message. An answer that begins with "!" is an exception.
 */
public final class MessagePeer {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", 4);
            String answer;
            try {
                answer = answer(words[0], words[1], Short.parseShort(words[2]), words[3]);
            } catch (Throwable error) {
                Throwable cause = error.getCause() == null ? error : error.getCause();
                answer = "!" + cause.toString().replace('\n', ' ');
            }
            out.println(answer);
            out.flush();
        }
    }

    private static String answer(String verb, String name, short version, String data) throws Exception {
        switch (verb) {
            case "hex": {
                Message message = (Message) Class.forName(name).getDeclaredConstructor().newInstance();
                ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(data));
                message.read(new ByteBufferAccessor(bytes), version);
                if (bytes.hasRemaining()) {
                    throw new IllegalStateException(bytes.remaining() + " bytes left over");
                }
                String shown = toJson(message, version).toString();  // before encode, which uses up records
                return encode(message, version) + " " + shown;
            }
            case "json": {
                Class<?> converter = Class.forName(name + "JsonConverter");
                Object message = converter.getMethod("read", JsonNode.class, short.class)
                    .invoke(null, MAPPER.readTree(data), version);
                return encode((Message) message, version);
            }
            case "rest": {
                ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(data));
                AbstractRequest.parseRequest(
                    ApiKeys.forId(Integer.parseInt(name)), version, new ByteBufferAccessor(bytes));
                return Integer.toString(bytes.remaining());
            }
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    private static String encode(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(bytes), cache, version);
        return HEX.formatHex(bytes.array());
    }

    private static JsonNode toJson(Message message, short version) throws Exception {
        Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
        return (JsonNode) converter.getMethod("write", message.getClass(), short.class, boolean.class)
            .invoke(null, message, version, true);
    }
}
