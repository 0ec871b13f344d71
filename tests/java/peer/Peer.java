import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Somebody's library behind stdin and stdout, one JSON object a line.
 *
 * <p>{"id": 7, "op": "create", ...} gives {"id": 7, ...} or {"id": 7, "error": "BKLedgerFencedException",
 * "message": "...", "code": -101}; commands run side by side. The end of stdin ends the process.
 */
public abstract class Peer {
    protected static final ObjectMapper MAPPER = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final PrintStream OUT = System.out;

    /** Does one command. */
    protected abstract ObjectNode run(JsonNode command) throws Exception;

    /** Returns the library's number of an error, 0 when it has none. */
    protected abstract int code(Throwable error);

    /** Answers until the end of stdin; what libraries print goes to stderr. */
    protected final void serve() throws Exception {
        System.setOut(System.err);
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = MAPPER.readTree(line);
            threads.execute(() -> answer(command));
        }
        Runtime.getRuntime().halt(0);
    }

    private void answer(JsonNode command) {
        ObjectNode answer;
        try {
            answer = run(command);
        } catch (Throwable error) {
            answer = failure(error);
        }
        answer.put("id", command.get("id").asLong());
        synchronized (OUT) {
            OUT.println(answer);
            OUT.flush();
        }
    }

    protected final ObjectNode failure(Throwable error) {
        while ((error instanceof ExecutionException || error instanceof CompletionException)
                && error.getCause() != null) {
            error = error.getCause();
        }
        return object().put("error", error.getClass().getSimpleName())
                .put("message", String.valueOf(error.getMessage())).put("code", code(error));
    }

    /** Returns SHA-256(name) over and over, cut to a size: tests make the same bytes. */
    protected static byte[] payload(String name, int size) throws Exception {
        byte[] unit = sha256(name.getBytes(StandardCharsets.US_ASCII));
        byte[] bytes = new byte[size];
        for (int i = 0; i < size; i++) {
            bytes[i] = unit[i % unit.length];
        }
        return bytes;
    }

    protected static String digest(byte[] bytes) throws Exception {
        return HEX.formatHex(sha256(bytes));
    }

    private static byte[] sha256(byte[] bytes) throws Exception {
        return MessageDigest.getInstance("SHA-256").digest(bytes);
    }

    protected static ObjectNode object() {
        return MAPPER.createObjectNode();
    }
}
