import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * How Kafka's broker judges one produced batch, behind stdin and stdout, one line in, one line out.
 *
 *   NOW COMPACTED OWN_TIME BEFORE AFTER HEX -> "=HEX": what it stores; "!CODE INDEX,INDEX,...": why it refuses it
 *
 * COMPACTED and OWN_TIME (LogAppendTime) are 0 or 1. Batches are stored with the codec that they came with.
 */
public final class ValidatorPeer {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(judge(line.split(" ")));
            out.flush();
        }
    }

    private static String judge(String[] words) {
        try {
            return "=" + HEX.formatHex(stored(words));
        } catch (RecordValidationException error) {
            String indexes = error.recordErrors().stream().map(each -> "" + each.batchIndex).collect(Collectors.joining(","));
            return "!" + Errors.forException(error.invalidException()).code() + " " + indexes;
        } catch (Throwable error) {
            return "!" + Errors.forException(error).code() + " ";
        }
    }

    private static byte[] stored(String[] words) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(words[5])));
        CompressionType codec = records.batches().iterator().next().compressionType();
        LogValidator validator = new LogValidator(
            records,
            new TopicPartition("t", 0),
            at(Long.parseLong(words[0])),
            codec,
            Compression.of(codec).build(),
            words[1].equals("1"),
            RecordBatch.CURRENT_MAGIC_VALUE,
            words[2].equals("1") ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
            Long.parseLong(words[3]),
            Long.parseLong(words[4]),
            0,
            AppendOrigin.CLIENT);
        LogValidator.MetricsRecorder metrics = (LogValidator.MetricsRecorder) Proxy.newProxyInstance(
            ValidatorPeer.class.getClassLoader(), new Class<?>[] {LogValidator.MetricsRecorder.class}, (proxy, method, given) -> null);
        ByteBuffer left = validator
            .validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(0), metrics, BufferSupplier.NO_CACHING)
            .validatedRecords()
            .buffer()
            .duplicate();
        byte[] stored = new byte[left.remaining()];
        left.get(stored);
        return stored;
    }

    private static Time at(long now) {
        return (Time) Proxy.newProxyInstance(
            ValidatorPeer.class.getClassLoader(),
            new Class<?>[] {Time.class},
            (proxy, method, given) -> switch (method.getName()) {
                case "milliseconds" -> now;
                case "nanoseconds" -> now * 1_000_000;
                default -> throw new UnsupportedOperationException(method.getName());
            });
    }
}
