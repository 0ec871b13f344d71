import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.net.URI;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.distributedlog.DLSN;
import org.apache.distributedlog.DistributedLogConfiguration;
import org.apache.distributedlog.LogRecord;
import org.apache.distributedlog.LogRecordSet;
import org.apache.distributedlog.LogRecordWithDLSN;
import org.apache.distributedlog.LogSegmentMetadata;
import org.apache.distributedlog.ZooKeeperClient;
import org.apache.distributedlog.ZooKeeperClientBuilder;
import org.apache.distributedlog.admin.DistributedLogAdmin;
import org.apache.distributedlog.api.AsyncLogReader;
import org.apache.distributedlog.api.AsyncLogWriter;
import org.apache.distributedlog.api.DistributedLogManager;
import org.apache.distributedlog.api.namespace.Namespace;
import org.apache.distributedlog.api.namespace.NamespaceBuilder;
import org.apache.distributedlog.api.subscription.SubscriptionsStore;
import org.apache.distributedlog.exceptions.DLException;
import org.apache.distributedlog.impl.metadata.BKDLConfig;
import org.apache.distributedlog.io.CompressionCodec;

/**
 * Apache DistributedLog's core library as a {@link Peer}.
 *
 * <p>"client" names a namespace that is open, made by "connect" with settings of its own; "handle" a
 * writer or a reader. Record t of seed s is SHA-256("s/t") over and over, cut to its size, t being its
 * txid; record i of a record set SHA-256("s/t/i"). What is read comes back as [LSSN, entry, slot,
 * txid, position, sequence id, size, SHA-256 in hex], and, if "payloads" are asked for, in base64.
 */
public final class LogPeer extends Peer {
    private final Map<String, Namespace> namespaces = new ConcurrentHashMap<>();
    private final Map<Integer, Held> handles = new ConcurrentHashMap<>();
    private final AtomicInteger lastHandle = new AtomicInteger();

    /** A log that is open for a writer or for a reader. */
    private record Held(DistributedLogManager log, AsyncLogWriter writer, AsyncLogReader reader) { }

    /** What is done with a log that is open. */
    private interface Use {
        ObjectNode with(DistributedLogManager log) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        new LogPeer().serve();
    }

    @Override
    protected int code(Throwable error) {
        return error instanceof DLException known ? known.getCode() : 0;
    }

    @Override
    protected ObjectNode run(JsonNode c) throws Exception {
        String op = c.get("op").asText();
        return switch (op) {
            case "init", "admin", "binding" -> around(c, op);
            case "connect" -> connect(c);
            case "disconnect" -> disconnect(c);
            case "create", "delete", "rename", "exists", "list" -> namespace(c, op);
            case "open_writer" -> openWriter(c);
            case "write" -> write(c);
            case "write_set" -> writeSet(c);
            case "acked" -> object().put("txid", held(c).writer().getLastTxId());
            case "mark_end" -> object().put("txid", held(c).writer().markEndOfStream().get());
            case "truncate" -> object().put("done", held(c).writer().truncate(dlsn(c)).get());
            case "close", "abort" -> letGo(c, op);
            case "open_reader" -> openReader(c);
            case "next" -> next(held(c).reader(), c);
            case "read" -> read(c);
            case "segments", "numbers", "count_from", "position", "recover", "purge" -> ask(c, op);
            case "get_position", "set_position" -> subscriber(c, op);
            default -> throw new IllegalArgumentException(op);
        };
    }

    // ---- clusters and namespaces

    private ObjectNode around(JsonNode c, String op) throws Exception {
        if (op.equals("init")) {
            ServerConfiguration conf = new ServerConfiguration();
            conf.setMetadataServiceUri(c.get("uri").asText());
            return object().put("created", BookKeeperAdmin.initNewCluster(conf));
        }
        if (op.equals("admin")) {
            String[] words = MAPPER.convertValue(c.get("words"), String[].class);
            return object().put("exit", new DistributedLogAdmin().run(words));
        }
        URI uri = URI.create(c.get("uri").asText());
        ZooKeeperClient zookeeper = ZooKeeperClientBuilder.newBuilder().uri(uri).zkAclId(null)
                .sessionTimeoutMs(10_000).build();
        try {
            BKDLConfig.clearCachedDLConfigs();
            BKDLConfig found = BKDLConfig.resolveDLConfig(zookeeper, uri);
            return object().put("bookies", found.getBkZkServersForWriter()).put("ledgers", found.getBkLedgersPath())
                    .put("logs", found.getDlZkServersForWriter()).put("encode_region", found.getEncodeRegionID())
                    .put("first_lssn", found.getFirstLogSegmentSeqNo());
        } finally {
            zookeeper.close();
        }
    }

    private ObjectNode connect(JsonNode c) throws Exception {
        DistributedLogConfiguration conf = new DistributedLogConfiguration();
        conf.setOutputBufferSize(0); // every record at once, and shown to readers at once
        conf.setImmediateFlushEnabled(true);
        conf.setLogSegmentRollingIntervalMinutes(0);
        conf.setMaxLogSegmentBytes(Integer.MAX_VALUE);
        conf.setLogSegmentRollingConcurrency(-1);
        conf.setRetentionPeriodHours(0);
        conf.setLockTimeout(0);
        conf.setLogSegmentCacheEnabled(false); // it does not notice what others rewrite
        conf.setPositionGapDetectionEnabled(true);
        conf.setReadAheadWaitTime(20); // the pace of attempts, in ms
        conf.setZKRetryBackoffStartMillis(100);
        conf.setBKClientWriteTimeout(30); // a busy machine is no reason to replace a bookie
        conf.setBKClientReadTimeout(30);
        conf.setNumWorkerThreads(2);
        conf.setBKClientNumberIOThreads(1);
        conf.setSchedulerShutdownTimeoutMs(100);
        // As LogPeer's bookies are: none has a region.
        conf.setProperty("bkc.ensemblePlacementPolicy",
                "org.apache.bookkeeper.client.RackawareEnsemblePlacementPolicy");
        Iterator<Map.Entry<String, JsonNode>> settings = c.path("conf").fields();
        while (settings.hasNext()) {
            Map.Entry<String, JsonNode> setting = settings.next();
            conf.setProperty(setting.getKey(), setting.getValue().asText());
        }
        BKDLConfig.clearCachedDLConfigs();
        String client = c.get("client").asText();
        namespaces.put(client, NamespaceBuilder.newBuilder().conf(conf)
                .uri(URI.create(c.get("uri").asText())).clientId(client).build());
        return object();
    }

    private ObjectNode disconnect(JsonNode c) {
        namespaces.remove(c.get("client").asText()).close();
        return object();
    }

    private Namespace in(JsonNode c) {
        return namespaces.get(c.get("client").asText());
    }

    private ObjectNode namespace(JsonNode c, String op) throws Exception {
        Namespace in = in(c);
        String log = c.path("log").asText();
        switch (op) {
            case "create" -> in.createLog(log);
            case "delete" -> in.deleteLog(log);
            case "rename" -> in.renameLog(log, c.get("to").asText()).get();
            case "exists" -> {
                return object().put("exists", in.logExists(log));
            }
            default -> {
                ArrayNode found = MAPPER.createArrayNode();
                (log.isEmpty() ? in.getLogs() : in.getLogs(log)).forEachRemaining(found::add);
                return object().set("logs", found);
            }
        }
        return object();
    }

    // ---- writing

    private ObjectNode openWriter(JsonNode c) throws Exception {
        DistributedLogManager log = in(c).openLog(c.get("log").asText());
        try {
            AsyncLogWriter writer = log.openAsyncLogWriter().get();
            return hold(new Held(log, writer, null)).put("txid", writer.getLastTxId());
        } catch (Exception error) {
            log.close();
            throw error;
        }
    }

    private ObjectNode hold(Held held) {
        int number = lastHandle.incrementAndGet();
        handles.put(number, held);
        return object().put("handle", number);
    }

    private Held held(JsonNode c) {
        return handles.get(c.get("handle").asInt());
    }

    /** Writes `count` records whose txids begin with `first` and go up by `step`. */
    private ObjectNode write(JsonNode c) throws Exception {
        AsyncLogWriter writer = held(c).writer();
        int size = c.get("size").asInt();
        List<LogRecord> records = new ArrayList<>();
        for (int i = 0; i < c.get("count").asInt(); i++) {
            long txid = c.get("first").asLong() + (long) i * c.path("step").asLong(1);
            records.add(new LogRecord(txid, payload(c.get("seed").asText() + "/" + txid, size)));
        }
        if (c.path("bulk").asBoolean()) {
            return outcome(writer.writeBulk(records).get());
        }
        List<CompletableFuture<DLSN>> written = new ArrayList<>();
        for (LogRecord record : records) {
            CompletableFuture<DLSN> done = writer.write(record);
            written.add(done);
            if (c.path("one_by_one").asBoolean()) {
                done.exceptionally(error -> DLSN.InvalidDLSN).get();
            }
        }
        return outcome(written);
    }

    private ObjectNode writeSet(JsonNode c) throws Exception {
        LogRecordSet.Writer set = LogRecordSet.newWriter(1024, CompressionCodec.Type.valueOf(c.get("codec").asText()));
        List<CompletableFuture<DLSN>> written = new ArrayList<>();
        String name = c.get("seed").asText() + "/" + c.get("txid").asLong() + "/";
        for (int i = 0; i < c.get("count").asInt(); i++) {
            CompletableFuture<DLSN> done = new CompletableFuture<>();
            set.writeRecord(ByteBuffer.wrap(payload(name + i, c.get("size").asInt())), done);
            written.add(done);
        }
        LogRecord record = new LogRecord(c.get("txid").asLong(), set.getBuffer());
        record.setRecordSet();
        held(c).writer().write(record).whenComplete((dlsn, error) -> {
            if (error == null) {
                set.completeTransmit(dlsn.getLogSegmentSequenceNo(), dlsn.getEntryId(), dlsn.getSlotId());
            } else {
                set.abortTransmit(error);
            }
        });
        return outcome(written);
    }

    private ObjectNode outcome(List<CompletableFuture<DLSN>> written) throws Exception {
        ObjectNode answer = object();
        ArrayNode dlsns = MAPPER.createArrayNode();
        for (CompletableFuture<DLSN> done : written) {
            try {
                dlsns.add(shown(done.get()));
            } catch (ExecutionException error) {
                if (!answer.has("error")) {
                    answer.setAll(failure(error));
                }
            }
        }
        return answer.set("dlsns", dlsns);
    }

    private ObjectNode letGo(JsonNode c, String op) throws Exception {
        Held held = handles.remove(c.get("handle").asInt());
        try {
            if (held.reader() != null) {
                held.reader().asyncClose().get();
            } else if (op.equals("abort")) {
                held.writer().asyncAbort().get();
            } else {
                held.writer().asyncClose().get();
            }
        } finally {
            held.log().close();
        }
        return object();
    }

    // ---- reading

    private ObjectNode openReader(JsonNode c) throws Exception {
        DistributedLogManager log = in(c).openLog(c.get("log").asText());
        try {
            CompletableFuture<AsyncLogReader> opened = c.has("txid")
                    ? log.openAsyncLogReader(c.get("txid").asLong()) : log.openAsyncLogReader(dlsn(c));
            return hold(new Held(log, null, opened.get()));
        } catch (Exception error) {
            log.close();
            throw error;
        }
    }

    private ObjectNode read(JsonNode c) throws Exception {
        ObjectNode opened = openReader(c);
        try {
            return next(held(opened).reader(), c);
        } finally {
            letGo(opened, "close");
        }
    }

    /** Reads `count` records; an error ends it and is said beside what came before. */
    private ObjectNode next(AsyncLogReader reader, JsonNode c) throws Exception {
        ObjectNode answer = object();
        ArrayNode records = MAPPER.createArrayNode();
        int count = c.get("count").asInt();
        try {
            while (records.size() < count) {
                for (LogRecordWithDLSN record : reader.readBulk(count - records.size()).get()) {
                    ArrayNode shown = shown(record);
                    records.add(c.path("payloads").asBoolean() ? shown.add(record.getPayload()) : shown);
                }
            }
        } catch (ExecutionException error) {
            answer.put("ended", failure(error).get("error").asText());
        }
        return answer.set("records", records);
    }

    private static ArrayNode shown(LogRecordWithDLSN record) throws Exception {
        byte[] bytes = record.getPayload();
        return shown(record.getDlsn()).add(record.getTransactionId()).add(record.getPositionWithinLogSegment())
                .add(record.getSequenceId()).add(bytes.length).add(digest(bytes));
    }

    private static ArrayNode shown(DLSN dlsn) {
        return MAPPER.createArrayNode().add(dlsn.getLogSegmentSequenceNo()).add(dlsn.getEntryId())
                .add(dlsn.getSlotId());
    }

    private static DLSN dlsn(JsonNode c) {
        JsonNode three = c.get("dlsn");
        return three == null ? DLSN.InitialDLSN
                : new DLSN(three.get(0).asLong(), three.get(1).asLong(), three.get(2).asLong());
    }

    // ---- questions about a log

    private ObjectNode with(JsonNode c, Use use) throws Exception {
        try (DistributedLogManager log = in(c).openLog(c.get("log").asText())) {
            return use.with(log);
        }
    }

    private ObjectNode ask(JsonNode c, String op) throws Exception {
        return with(c, log -> switch (op) {
            case "segments" -> segments(log);
            case "numbers" -> object().put("count", log.getLogRecordCount()).put("first_txid", log.getFirstTxId())
                    .put("last_txid", log.getLastTxId()).set("last", shown(log.getLastDLSN()));
            case "count_from" -> object().put("count", log.getLogRecordCountAsync(dlsn(c)).get());
            case "position" -> object().set("dlsn", shown(log.getDLSNNotLessThanTxId(c.get("txid").asLong()).get()));
            case "recover" -> {
                log.recover();
                yield object();
            }
            default -> {
                log.purgeLogsOlderThan(c.get("txid").asLong());
                yield object();
            }
        });
    }

    private static ObjectNode segments(DistributedLogManager log) throws Exception {
        ArrayNode found = MAPPER.createArrayNode();
        for (LogSegmentMetadata segment : log.getLogSegments()) {
            found.add(object().put("lssn", segment.getLogSegmentSequenceNumber())
                    .put("ledger", segment.getLogSegmentId()).put("version", segment.getVersion())
                    .put("in_progress", segment.isInProgress()).put("first_txid", segment.getFirstTxId())
                    .put("last_txid", segment.getLastTxId()).put("count", segment.getRecordCount())
                    .put("truncation", segment.getTruncationStatus().name()).put("region", segment.getRegionId())
                    .put("start", segment.getStartSequenceId()).put("node", segment.getZNodeName()));
        }
        return object().set("segments", found);
    }

    private ObjectNode subscriber(JsonNode c, String op) throws Exception {
        return with(c, log -> {
            SubscriptionsStore positions = log.getSubscriptionsStore();
            String subscriber = c.get("subscriber").asText();
            if (op.equals("set_position")) {
                positions.advanceCommitPosition(subscriber, dlsn(c)).get();
            }
            return object().set("dlsn", shown(positions.getLastCommitPosition(subscriber).get()));
        });
    }
}
