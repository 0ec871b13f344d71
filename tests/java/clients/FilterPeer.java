import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;

/**
 * Kafka's own filter of record batches behind stdin and stdout, one line in, one line out.
 *
 *   NOW RETENTION END HOLDERS DISCARDED HEX -> "=HEX": what is left of the batches
 *
 * The offset map is made here, of what is not DISCARDED. END: the upper bound of the pass. HOLDERS: last offsets of batches
 * that hold a producer's last sequence. DISCARDED: base offsets of aborted batches, and of markers with nothing left. Both
 * are lists with commas; "-" is none. An answer that begins with "!" is an exception.
 */
public final class FilterPeer {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = "=" + HEX.formatHex(filter(line.split(" ", 6)));
            } catch (Throwable error) {
                answer = "!" + error.toString().replace('\n', ' ');
            }
            out.println(answer);
            out.flush();
        }
    }

    private static byte[] filter(String[] words) {
        byte[] source = HEX.parseHex(words[5]);
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(source));
        Rules rules = new Rules(
            Long.parseLong(words[0]), Long.parseLong(words[1]), Long.parseLong(words[2]), offsets(words[3]), offsets(words[4]));
        for (MutableRecordBatch batch : records.batches()) {
            if (!batch.isControlBatch() && !rules.discarded.contains(batch.baseOffset())) {
                for (Record record : batch) {
                    if (record.hasKey()) {
                        rules.latest.put(record.key().duplicate(), record.offset());
                    }
                }
            }
        }
        ByteBuffer out = ByteBuffer.allocate(source.length * 2 + 1024);
        ByteBuffer filtered = records.filterTo(rules, out, BufferSupplier.NO_CACHING).outputBuffer();
        filtered.flip();
        byte[] left = new byte[filtered.remaining()];
        filtered.get(left);
        return left;
    }

    private static Set<Long> offsets(String list) {
        return list.equals("-") ? Set.of() : Arrays.stream(list.split(",")).map(Long::valueOf).collect(Collectors.toSet());
    }

    /** The cleaner's rules, as reference Kafka 9.5 has them. */
    private static final class Rules extends MemoryRecords.RecordFilter {
        final Map<ByteBuffer, Long> latest = new HashMap<>();
        final long end;
        final Set<Long> holders;
        final Set<Long> discarded;
        boolean drops;

        Rules(long now, long retention, long end, Set<Long> holders, Set<Long> discarded) {
            super(now, retention);
            this.end = end;
            this.holders = holders;
            this.discarded = discarded;
        }

        @Override
        protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
            boolean mayGo = discarded.contains(batch.baseOffset());
            drops = mayGo && (!batch.isControlBatch() || isPast(batch));
            BatchRetention retention = drops ? BatchRetention.DELETE : BatchRetention.DELETE_EMPTY;
            if (holders.contains(batch.lastOffset()) || batch.nextOffset() == end) {
                retention = BatchRetention.RETAIN_EMPTY;
            }
            return new BatchRetentionResult(retention, mayGo && batch.isControlBatch());
        }

        @Override
        protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
            if (drops || batch.isControlBatch()) {
                return !drops;
            }
            boolean isWanted = record.hasValue() || !isPast(batch);
            return record.hasKey() && record.offset() >= latest.get(record.key()) && isWanted;
        }

        private boolean isPast(RecordBatch batch) {
            return batch.deleteHorizonMs().isPresent() && batch.deleteHorizonMs().getAsLong() <= currentTime;
        }
    }
}
