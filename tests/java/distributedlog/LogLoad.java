import java.net.URI;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.distributedlog.DLSN;
import org.apache.distributedlog.DistributedLogConfiguration;
import org.apache.distributedlog.LogRecord;
import org.apache.distributedlog.LogRecordWithDLSN;
import org.apache.distributedlog.api.AsyncLogReader;
import org.apache.distributedlog.api.AsyncLogWriter;
import org.apache.distributedlog.api.DistributedLogManager;
import org.apache.distributedlog.api.namespace.Namespace;
import org.apache.distributedlog.api.namespace.NamespaceBuilder;

/**
 * Load on log streams through Apache's library, the counterpart of tests/bench/log_client.py, which
 * says what the arguments are. Prints one line of JSON.
 */
public final class LogLoad {
    private static final int RECORDS_MAX = 4_000_000;
    private static final int READ_BATCH = 1000;
    private static final int SEEK_TXID_MAX = 200;
    private final URI uri;
    private final String log;
    private final double[] numbers;
    private final List<String> settings;

    private LogLoad(URI uri, String log, double[] numbers, List<String> settings) {
        this.uri = uri;
        this.log = log;
        this.numbers = numbers;
        this.settings = settings;
    }

    public static void main(String[] args) throws Exception {
        double[] numbers = Arrays.stream(args).skip(3).filter(word -> !word.contains("="))
                .mapToDouble(Double::parseDouble).toArray();
        List<String> settings = Arrays.stream(args).skip(3).filter(word -> word.contains("=")).toList();
        LogLoad load = new LogLoad(URI.create(args[0]), args[2], numbers, settings);
        switch (args[1]) {
            case "append" -> load.append();
            case "tail" -> load.tail();
            case "read" -> load.read();
            case "open" -> load.open();
            case "position" -> load.position();
            case "seek" -> load.seek();
            default -> throw new IllegalArgumentException(args[1]);
        }
        System.exit(0);
    }

    private Namespace connect() throws Exception {
        DistributedLogConfiguration conf = new DistributedLogConfiguration();
        conf.setProperty("bkc.throttle", 0); // else no more than 5000 adds a second
        conf.setProperty("bkc.ensemblePlacementPolicy",
                "org.apache.bookkeeper.client.RackawareEnsemblePlacementPolicy");
        conf.setLogSegmentRollingIntervalMinutes(0);
        conf.setMaxLogSegmentBytes(Integer.MAX_VALUE);
        conf.setRetentionPeriodHours(0);
        conf.setReadAheadMaxRecords(256); // as far ahead as the other side
        conf.setNumPrefetchEntriesPerLogSegment(64);
        conf.setMaxPrefetchEntriesPerLogSegment(256);
        for (String setting : settings) {
            int at = setting.indexOf('=');
            conf.setProperty(setting.substring(0, at), setting.substring(at + 1));
        }
        return NamespaceBuilder.newBuilder().conf(conf).uri(uri).clientId("load").build();
    }

    private byte[] payload() {
        byte[] payload = new byte[(int) numbers[0]];
        new Random(7).nextBytes(payload);
        return payload;
    }

    private void append() throws Exception {
        byte[] payload = payload();
        int inFlight = (int) numbers[1];
        AsyncLogWriter writer = connect().openLog(log).openAsyncLogWriter().get();
        Sent sent = new Sent(inFlight);
        sent.write(writer, payload, numbers[2], 0);
        int warm = sent.count;
        double took = sent.write(writer, payload, numbers[3], 0);
        int count = sent.count - warm;
        System.out.printf("{\"records_per_s\": %.1f, \"p50_ms\": %.3f, \"p99_ms\": %.3f}%n",
                count / took, sent.percentile(warm, 0.50), sent.percentile(warm, 0.99));
        writer.asyncClose().get();
    }

    private void tail() throws Exception {
        AsyncLogWriter writer = connect().openLog(log).openAsyncLogWriter().get();
        Sent sent = new Sent(10_000);
        AtomicLongArray readNanos = new AtomicLongArray(RECORDS_MAX);
        AsyncLogReader reader = connect().openLog(log).openAsyncLogReader(DLSN.InitialDLSN).get();
        AtomicReference<Integer> last = new AtomicReference<>(Integer.MAX_VALUE);
        Thread reading = new Thread(() -> {
            int next = 0;
            while (next < last.get()) {
                LogRecordWithDLSN record = reader.readNext().join();
                next = (int) record.getTransactionId();
                readNanos.set(next - 1, System.nanoTime());
            }
        });
        reading.start();
        sent.write(writer, payload(), numbers[2], numbers[1]);
        int warm = sent.count;
        last.set(warm + (int) Math.ceil(numbers[1] * numbers[3]));
        sent.write(writer, payload(), numbers[3], numbers[1]);
        reading.join();
        double[] latencies = new double[last.get() - warm];
        for (int i = 0; i < latencies.length; i++) {
            latencies[i] = (readNanos.get(warm + i) - sent.due[warm + i]) / 1e6;
        }
        Arrays.sort(latencies);
        System.out.printf("{\"p50_ms\": %.3f, \"p99_ms\": %.3f}%n",
                latencies[latencies.length / 2], latencies[(int) (latencies.length * 0.99)]);
        writer.asyncClose().get();
    }

    private void read() throws Exception {
        DistributedLogManager stream = connect().openLog(log);
        DLSN last = stream.getLastDLSN();
        long warmUntil = System.nanoTime() + (long) (numbers[0] * 1e9);
        while (System.nanoTime() < warmUntil) {
            readOnce(stream, last);
        }
        long start = System.nanoTime();
        long bytes = readOnce(stream, last);
        double took = (System.nanoTime() - start) / 1e9;
        System.out.printf("{\"mb_per_s\": %.3f, \"mb\": %.1f}%n", bytes / 1e6 / took, bytes / 1e6);
    }

    private static long readOnce(DistributedLogManager stream, DLSN last) throws Exception {
        AsyncLogReader reader = stream.openAsyncLogReader(DLSN.InitialDLSN).get();
        long bytes = 0;
        DLSN at = DLSN.InvalidDLSN;
        while (at.compareTo(last) < 0) {
            for (LogRecordWithDLSN record : reader.readBulk(READ_BATCH).get()) {
                bytes += record.getPayload().length;
                at = record.getDlsn();
            }
        }
        reader.asyncClose().get();
        return bytes;
    }

    private void open() throws Exception {
        int rounds = (int) numbers[0];
        double[][] times = new double[2][rounds];
        for (int round = -1; round < rounds; round++) { // the first one warms up
            Namespace in = connect();
            openOnce(in, log + "-other"); // connections to everything
            double[] took = openOnce(in, log);
            for (int i = 0; i < 2 && round >= 0; i++) {
                times[i][round] = took[i];
            }
            in.close();
        }
        System.out.printf("{\"open_ms\": %.3f, \"written_ms\": %.3f}%n", median(times[0]), median(times[1]));
    }

    private static double median(double[] times) {
        double[] sorted = times.clone();
        Arrays.sort(sorted);
        return sorted[sorted.length / 2];
    }

    /** Returns how long it takes to own a log, and to have its first record written. Unit: ms. */
    private static double[] openOnce(Namespace in, String name) throws Exception {
        long start = System.nanoTime();
        DistributedLogManager stream = in.openLog(name);
        AsyncLogWriter writer = stream.openAsyncLogWriter().get();
        long opened = System.nanoTime();
        writer.write(new LogRecord(Math.max(writer.getLastTxId(), 0) + 1, new byte[1024])).get();
        long written = System.nanoTime();
        writer.asyncAbort().get(); // leaves a segment in progress
        stream.close();
        return new double[] {(opened - start) / 1e6, (written - start) / 1e6};
    }

    private void seek() throws Exception {
        int rounds = (int) numbers[0];
        int count = (int) numbers[1];
        Random random = new Random(7);
        double[] firsts = new double[rounds];
        double[] times = new double[count];
        for (int round = -1; round < rounds; round++) { // the first one warms up
            Namespace in = connect();
            openOnce(in, log + "-other");
            long start = System.nanoTime();
            DistributedLogManager stream = in.openLog(log);
            seekOnce(stream, 1 + random.nextInt(SEEK_TXID_MAX));
            if (round >= 0) {
                firsts[round] = (System.nanoTime() - start) / 1e6;
            }
            if (round == rounds - 1) {
                long last = stream.getLastTxId();
                for (int i = -count; i < count; i++) { // the first half warms up
                    double took = seekOnce(stream, 1 + (long) (random.nextDouble() * last));
                    times[Math.max(i, 0)] = took;
                }
            }
            in.close();
        }
        System.out.printf("{\"first_ms\": %.3f, \"p50_ms\": %.3f}%n", median(firsts), median(times));
    }

    /** Returns how long it takes to read the first record from a txid on. Unit: ms. */
    private static double seekOnce(DistributedLogManager stream, long txid) throws Exception {
        long start = System.nanoTime();
        AsyncLogReader reader = stream.openAsyncLogReader(txid).get();
        LogRecordWithDLSN found = reader.readNext().get();
        double took = (System.nanoTime() - start) / 1e6;
        if (found.getTransactionId() < txid) {
            throw new IllegalStateException(found + " for " + txid);
        }
        reader.asyncClose().get();
        return took;
    }

    private void position() throws Exception {
        DistributedLogManager stream = connect().openLog(log);
        long last = stream.getLastTxId();
        Random random = new Random(7);
        int count = (int) numbers[0];
        double[] times = new double[count];
        for (int i = -count; i < count; i++) { // the first half warms up
            long txid = 1 + (long) (random.nextDouble() * last);
            long start = System.nanoTime();
            stream.getDLSNNotLessThanTxId(txid).get();
            if (i >= 0) {
                times[i] = (System.nanoTime() - start) / 1e6;
            }
        }
        Arrays.sort(times);
        System.out.printf("{\"p50_ms\": %.3f, \"p99_ms\": %.3f}%n", times[count / 2], times[(int) (count * 0.99)]);
    }

    /** Records 1, 2, ... of one writer: when each was due, and when it was acknowledged. */
    private static final class Sent {
        private final long[] due = new long[RECORDS_MAX];
        private final long[] acked = new long[RECORDS_MAX];
        private final AtomicReference<Throwable> failed = new AtomicReference<>();
        private final Semaphore room;
        private final int inFlight;
        private int count;

        Sent(int inFlight) {
            this.inFlight = inFlight;
            this.room = new Semaphore(inFlight);
        }

        /** Writes for so many seconds, as fast as it goes or at a rate; returns how long it took. */
        double write(AsyncLogWriter writer, byte[] payload, double seconds, double rate) throws Exception {
            long start = System.nanoTime();
            long end = start + (long) (seconds * 1e9);
            int first = count;
            int most = rate > 0 ? (int) Math.ceil(rate * seconds) : RECORDS_MAX - count;
            while (failed.get() == null && count - first < most) {
                long at = rate > 0 ? start + (long) ((count - first) * 1e9 / rate) : System.nanoTime();
                if (rate <= 0 && at >= end) {
                    break;
                }
                while (System.nanoTime() < at) {
                    LockSupport.parkNanos(at - System.nanoTime());
                }
                room.acquire();
                int number = count++;
                due[number] = rate > 0 ? at : System.nanoTime();
                CompletableFuture<DLSN> done = writer.write(new LogRecord(number + 1, payload));
                done.whenComplete((dlsn, error) -> {
                    if (error != null) {
                        failed.compareAndSet(null, error);
                    }
                    acked[number] = System.nanoTime();
                    room.release();
                });
            }
            room.acquire(inFlight);
            room.release(inFlight);
            if (failed.get() != null) {
                throw new IllegalStateException("a write failed", failed.get());
            }
            return (System.nanoTime() - start) / 1e9;
        }

        double percentile(int first, double share) {
            double[] found = new double[count - first];
            for (int i = 0; i < found.length; i++) {
                found[i] = (acked[first + i] - due[first + i]) / 1e6;
            }
            Arrays.sort(found);
            return found[(int) (found.length * share)];
        }
    }
}
