import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Lz4BlockInputStream;
import org.apache.kafka.common.utils.BufferSupplier;

/** Kafka's own reader of LZ4 behind stdin and stdout: a line of hex in, "=HEX" out, or "!" and an exception. */
public final class Lz4Peer {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try (Lz4BlockInputStream stream =
                    new Lz4BlockInputStream(ByteBuffer.wrap(HEX.parseHex(line)), BufferSupplier.NO_CACHING, false)) {
                answer = "=" + HEX.formatHex(stream.readAllBytes());
            } catch (Exception error) {
                answer = "!" + error.toString().replace('\n', ' ');
            }
            out.println(answer);
            out.flush();
        }
    }
}
