import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.util.Arrays;
import java.util.Collections;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * Load on bookies through Apache's own client, the counterpart of tests/bench/ledger_client.py.
 *
 * <p>Arguments: metadata URI, E, Qw, Qa, entry bytes, entries in flight, then one step after the
 * other: seconds and adds per second (0: as many as go). Each step prints one line of JSON; the last
 * line is of reading everything of the last step's ledger back. Latency counts from the moment an
 * add was due, so a stall is not hidden by the load that waits for it.
 */
public final class LedgerLoad {
    private static final int LATENCIES_MAX = 8_000_000;
    private static final int READ_BATCH = 64;

    public static void main(String[] args) throws Exception {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(args[0]);
        conf.setThrottleValue(0); // else no more than 5000 adds a second, whatever the bookies can
        int ensemble = Integer.parseInt(args[1]);
        int writeQuorum = Integer.parseInt(args[2]);
        int ackQuorum = Integer.parseInt(args[3]);
        byte[] payload = new byte[Integer.parseInt(args[4])];
        new Random(7).nextBytes(payload);
        int inFlight = Integer.parseInt(args[5]);
        try (BookKeeper client = BookKeeper.newBuilder(conf).build()) {
            long ledger = -1;
            for (int i = 6; i + 1 < args.length; i += 2) {
                WriteHandle writer = client.newCreateLedgerOp()
                        .withEnsembleSize(ensemble).withWriteQuorumSize(writeQuorum)
                        .withAckQuorumSize(ackQuorum).withDigestType(DigestType.CRC32C)
                        .withPassword(new byte[0]).withCustomMetadata(Collections.emptyMap())
                        .execute().get();
                ledger = writer.getId();
                add(writer, payload, inFlight, Double.parseDouble(args[i]), Double.parseDouble(args[i + 1]));
                writer.close();
            }
            read(client, ledger);
        }
        System.exit(0);
    }

    private static void add(WriteHandle writer, byte[] payload, int inFlight, double seconds, double rate)
            throws Exception {
        Semaphore room = new Semaphore(inFlight);
        int[] latenciesUs = new int[LATENCIES_MAX];
        AtomicInteger done = new AtomicInteger();
        AtomicReference<Throwable> failed = new AtomicReference<>();
        long start = System.nanoTime();
        long end = start + (long) (seconds * 1e9);
        int sent = 0;
        while (failed.get() == null && sent < LATENCIES_MAX) {
            long due = rate > 0 ? start + (long) (sent * 1e9 / rate) : System.nanoTime();
            if (due >= end) {
                break;
            }
            while (System.nanoTime() < due) {
                LockSupport.parkNanos(due - System.nanoTime());
            }
            room.acquire();
            long from = rate > 0 ? due : System.nanoTime();
            sent++;
            ByteBuf entry = Unpooled.wrappedBuffer(payload);
            writer.appendAsync(entry).whenComplete((id, error) -> {
                if (error != null) {
                    failed.compareAndSet(null, error);
                } else {
                    latenciesUs[done.getAndIncrement()] = (int) ((System.nanoTime() - from) / 1000);
                }
                room.release();
            });
        }
        room.acquire(inFlight);
        double took = (System.nanoTime() - start) / 1e9;
        if (failed.get() != null) {
            throw new IllegalStateException("an add failed: "
                    + (failed.get() instanceof BKException e ? BKException.getMessage(e.getCode()) : failed.get()));
        }
        int count = done.get();
        Arrays.sort(latenciesUs, 0, count);
        System.out.printf("{\"adds_per_s\": %.1f, \"mb_per_s\": %.3f, \"p50_ms\": %.3f, \"p99_ms\": %.3f}%n",
                count / took, count / took * payload.length / 1e6,
                latenciesUs[count / 2] / 1e3, latenciesUs[(int) (count * 0.99)] / 1e3);
    }

    private static void read(BookKeeper client, long ledger) throws Exception {
        ReadHandle reader = client.newOpenLedgerOp().withLedgerId(ledger).withDigestType(DigestType.CRC32C)
                .withPassword(new byte[0]).execute().get();
        long last = reader.getLastAddConfirmed();
        long start = System.nanoTime();
        long bytes = 0;
        int batches = 0;
        int[] latenciesUs = new int[(int) (last / READ_BATCH) + 1];
        for (long first = 0; first <= last; first += READ_BATCH) {
            long from = System.nanoTime();
            try (LedgerEntries entries = reader.read(first, Math.min(last, first + READ_BATCH - 1))) {
                for (var entry : entries) {
                    bytes += entry.getEntryBuffer().readableBytes();
                }
            }
            latenciesUs[batches++] = (int) ((System.nanoTime() - from) / 1000);
        }
        double took = (System.nanoTime() - start) / 1e9;
        Arrays.sort(latenciesUs, 0, batches);
        System.out.printf("{\"reads_per_s\": %.1f, \"mb_per_s\": %.3f, \"p50_ms\": %.3f, \"p99_ms\": %.3f}%n",
                (last + 1) / took, bytes / 1e6 / took,
                latenciesUs[batches / 2] / 1e3, latenciesUs[(int) (batches * 0.99)] / 1e3);
        reader.close();
    }
}
