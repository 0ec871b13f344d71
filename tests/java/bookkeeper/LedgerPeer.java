import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.CreateAdvBuilder;
import org.apache.bookkeeper.client.api.CreateBuilder;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteAdvHandle;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.net.BookieId;

/**
 * Apache's ledger client as a {@link Peer}.
 *
 * <p>"client" names a client, made by "connect"; "handle" a ledger that is open. Entry e of seed s is
 * SHA-256("s/e") over and over, cut to its size; what is read comes back as [entry id, ledger length,
 * size, SHA-256 in hex].
 */
public final class LedgerPeer extends Peer {
    private final Map<String, BookKeeper> clients = new ConcurrentHashMap<>();
    private final Map<Integer, ReadHandle> handles = new ConcurrentHashMap<>();
    private final AtomicInteger lastHandle = new AtomicInteger();

    public static void main(String[] args) throws Exception {
        new LedgerPeer().serve();
    }

    @Override
    protected int code(Throwable error) {
        return error instanceof org.apache.bookkeeper.client.api.BKException known ? known.getCode() : 0;
    }

    @Override
    protected ObjectNode run(JsonNode c) throws Exception {
        String op = c.get("op").asText();
        return switch (op) {
            case "init" -> init(c);
            case "connect" -> connect(c);
            case "disconnect" -> disconnect(c);
            case "create" -> create(c);
            case "create_adv" -> createAdv(c);
            case "add" -> add(c);
            case "add_adv" -> addAdv(c);
            case "force" -> force(c);
            case "close" -> close(c);
            case "open" -> open(c);
            case "read", "read_unconfirmed", "batch_read" -> read(c, op);
            case "state", "read_lac", "try_read_lac", "read_explicit_lac" -> lac(c, op);
            case "long_poll" -> longPoll(c);
            case "delete" -> delete(c);
            case "list" -> list(c);
            case "metadata" -> metadata(c);
            case "bookies" -> bookies(c);
            case "list_entries" -> listEntries(c);
            case "recover_bookie" -> recoverBookie(c);
            default -> throw new IllegalArgumentException(op);
        };
    }

    // ---- cluster

    private ObjectNode init(JsonNode c) throws Exception {
        ServerConfiguration conf = new ServerConfiguration();
        conf.setMetadataServiceUri(c.get("uri").asText());
        return object().put("created", BookKeeperAdmin.initNewCluster(conf));
    }

    private ObjectNode connect(JsonNode c) throws Exception {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(c.get("uri").asText());
        conf.setAddEntryTimeout(30); // a busy machine is no reason to replace a bookie
        conf.setReadEntryTimeout(30);
        conf.setNumIOThreads(2);
        conf.setNumWorkerThreads(2);
        conf.setGetBookieInfoIntervalSeconds(3600, java.util.concurrent.TimeUnit.SECONDS);
        Iterator<Map.Entry<String, JsonNode>> settings = c.path("conf").fields();
        while (settings.hasNext()) {
            Map.Entry<String, JsonNode> setting = settings.next();
            conf.setProperty(setting.getKey(), setting.getValue().asText());
        }
        clients.put(c.get("client").asText(), new BookKeeper(conf));
        return object();
    }

    private ObjectNode disconnect(JsonNode c) throws Exception {
        clients.remove(c.get("client").asText()).close();
        return object();
    }

    private BookKeeper client(JsonNode c) {
        return clients.get(c.get("client").asText());
    }

    private ObjectNode bookies(JsonNode c) throws Exception {
        try (BookKeeperAdmin admin = new BookKeeperAdmin(client(c))) {
            ObjectNode found = object();
            found.set("writable", names(admin.getAvailableBookies()));
            found.set("read_only", names(admin.getReadOnlyBookies()));
            found.set("all", names(admin.getAllBookies()));
            return found;
        }
    }

    private static ArrayNode names(Iterable<BookieId> bookies) {
        ArrayNode names = MAPPER.createArrayNode();
        bookies.forEach(bookie -> names.add(bookie.getId()));
        return names;
    }

    private ObjectNode list(JsonNode c) throws Exception {
        ArrayNode ledgers = MAPPER.createArrayNode();
        try (BookKeeperAdmin admin = new BookKeeperAdmin(client(c))) {
            admin.listLedgers().forEach(ledger -> ledgers.add(ledger.longValue()));
        }
        return object().set("ledgers", ledgers);
    }

    private ObjectNode listEntries(JsonNode c) throws Exception {
        BookieId bookie = BookieId.parse(c.get("bookie").asText());
        ArrayNode entries = MAPPER.createArrayNode();
        try (BookKeeperAdmin admin = new BookKeeperAdmin(client(c))) {
            var found = admin.asyncGetListOfEntriesOfLedger(bookie, c.get("ledger").asLong()).get();
            for (long entry = 0; entry <= c.get("last").asLong(); entry++) {
                if (found.isEntryAvailable(entry)) {
                    entries.add(entry);
                }
            }
        }
        return object().set("entries", entries);
    }

    private ObjectNode recoverBookie(JsonNode c) throws Exception {
        try (BookKeeperAdmin admin = new BookKeeperAdmin(client(c))) {
            Set<BookieId> lost = new HashSet<>();
            lost.add(BookieId.parse(c.get("bookie").asText()));
            admin.recoverBookieData(c.get("ledger").asLong(), lost, false, false);
        }
        return object();
    }

    // ---- writing

    private CreateBuilder builder(JsonNode c) {
        EnumSet<WriteFlag> flags = c.path("deferred_sync").asBoolean()
                ? EnumSet.of(WriteFlag.DEFERRED_SYNC) : WriteFlag.NONE;
        Map<String, byte[]> custom = new HashMap<>();
        c.path("custom").fields().forEachRemaining(
                field -> custom.put(field.getKey(), field.getValue().asText().getBytes(StandardCharsets.UTF_8)));
        return client(c).newCreateLedgerOp().withEnsembleSize(c.get("e").asInt())
                .withWriteQuorumSize(c.get("qw").asInt()).withAckQuorumSize(c.get("qa").asInt())
                .withDigestType(DigestType.valueOf(c.path("digest").asText("CRC32C"))).withPassword(password(c))
                .withCustomMetadata(custom).withWriteFlags(flags);
    }

    private ObjectNode create(JsonNode c) throws Exception {
        return opened(builder(c).execute().get());
    }

    private ObjectNode createAdv(JsonNode c) throws Exception {
        CreateAdvBuilder adv = builder(c).makeAdv();
        if (c.has("ledger")) {
            adv = adv.withLedgerId(c.get("ledger").asLong());
        }
        return opened(adv.execute().get());
    }

    private ObjectNode add(JsonNode c) throws Exception {
        WriteHandle writer = (WriteHandle) handle(c);
        long next = ((LedgerHandle) writer).getLastAddPushed() + 1;
        List<CompletableFuture<Long>> adds = new ArrayList<>();
        for (int i = 0; i < c.get("count").asInt(); i++) {
            CompletableFuture<Long> done = writer.appendAsync(payload(c, next + i));
            adds.add(done);
            if (c.path("one_by_one").asBoolean()) {
                done.exceptionally(error -> -1L).get();
            }
        }
        return outcome(adds);
    }

    private ObjectNode addAdv(JsonNode c) throws Exception {
        WriteAdvHandle writer = (WriteAdvHandle) handle(c);
        List<CompletableFuture<Long>> adds = new ArrayList<>();
        for (JsonNode entry : c.get("entries")) {
            adds.add(writer.writeAsync(entry.asLong(), payload(c, entry.asLong())));
        }
        return outcome(adds);
    }

    private ObjectNode outcome(List<CompletableFuture<Long>> adds) throws Exception {
        ObjectNode answer = object();
        int confirmed = 0;
        for (CompletableFuture<Long> done : adds) {
            try {
                answer.put("last", done.get());
                confirmed++;
            } catch (ExecutionException error) {
                if (!answer.has("error")) {
                    answer.setAll(failure(error));
                }
            }
        }
        return answer.put("confirmed", confirmed);
    }

    private static ByteBuf payload(JsonNode c, long entry) throws Exception {
        return Unpooled.wrappedBuffer(payload(c.get("seed").asInt() + "/" + entry, c.get("size").asInt()));
    }

    private ObjectNode force(JsonNode c) throws Exception {
        ((WriteHandle) handle(c)).force().get();
        return lac(c, "state");
    }

    private ObjectNode close(JsonNode c) throws Exception {
        handles.remove(c.get("handle").asInt()).close();
        return object();
    }

    private ObjectNode delete(JsonNode c) throws Exception {
        client(c).newDeleteLedgerOp().withLedgerId(c.get("ledger").asLong()).execute().get();
        return object();
    }

    // ---- reading

    private ObjectNode open(JsonNode c) throws Exception {
        return opened(client(c).newOpenLedgerOp().withLedgerId(c.get("ledger").asLong())
                .withRecovery(c.get("recovery").asBoolean()).withPassword(password(c))
                .withDigestType(DigestType.valueOf(c.path("digest").asText("CRC32C"))).execute().get());
    }

    private ObjectNode opened(ReadHandle handle) {
        int number = lastHandle.incrementAndGet();
        handles.put(number, handle);
        return state(handle).put("handle", number).put("ledger", handle.getId());
    }

    private static ObjectNode state(ReadHandle handle) {
        return object().put("lac", handle.getLastAddConfirmed()).put("length", handle.getLength())
                .put("closed", handle.isClosed());
    }

    private ReadHandle handle(JsonNode c) {
        return handles.get(c.get("handle").asInt());
    }

    private ObjectNode lac(JsonNode c, String op) throws Exception {
        ReadHandle handle = handle(c);
        switch (op) {
            case "read_lac" -> handle.readLastAddConfirmed();
            case "try_read_lac" -> handle.tryReadLastAddConfirmed();
            case "read_explicit_lac" -> ((LedgerHandle) handle).readExplicitLastConfirmed();
            default -> { }
        }
        return state(handle);
    }

    private ObjectNode read(JsonNode c, String op) throws Exception {
        ReadHandle handle = handle(c);
        long first = c.get("first").asLong();
        CompletableFuture<LedgerEntries> entries = switch (op) {
            case "read" -> handle.readAsync(first, c.get("last").asLong());
            case "batch_read" -> handle.batchReadAsync(first, c.get("count").asInt(), c.get("bytes").asLong());
            default -> handle.readUnconfirmedAsync(first, c.get("last").asLong());
        };
        ArrayNode found = MAPPER.createArrayNode();
        try (LedgerEntries read = entries.get()) {
            for (LedgerEntry entry : read) {
                found.add(shown(entry));
            }
        }
        return state(handle).set("entries", found);
    }

    private static ArrayNode shown(LedgerEntry entry) throws Exception {
        byte[] bytes = entry.getEntryBytes();
        return MAPPER.createArrayNode().add(entry.getEntryId()).add(entry.getLength()).add(bytes.length)
                .add(digest(bytes));
    }

    private ObjectNode longPoll(JsonNode c) throws Exception {
        ReadHandle handle = handle(c);
        try (LastConfirmedAndEntry news = handle.readLastAddConfirmedAndEntryAsync(c.get("entry").asLong(),
                c.get("timeout_ms").asLong(), c.path("parallel").asBoolean()).get()) {
            ObjectNode answer = object().put("lac", news.getLastAddConfirmed());
            if (news.hasEntry()) {
                answer.set("entry", shown(news.getEntry()));
            }
            return answer;
        }
    }

    private ObjectNode metadata(JsonNode c) throws Exception {
        LedgerMetadata found = client(c).getLedgerMetadata(c.get("ledger").asLong()).get();
        ObjectNode answer = object().put("version", found.getMetadataFormatVersion())
                .put("state", found.getState().name()).put("e", found.getEnsembleSize())
                .put("qw", found.getWriteQuorumSize()).put("qa", found.getAckQuorumSize())
                .put("last", found.getLastEntryId()).put("length", found.getLength())
                .put("digest", String.valueOf(found.getDigestType()))
                .put("password", new String(found.getPassword(), StandardCharsets.UTF_8));
        ObjectNode ensembles = answer.putObject("ensembles");
        found.getAllEnsembles().forEach((first, members) ->
                ensembles.set(String.valueOf(first), names(new ArrayList<BookieId>(members))));
        ObjectNode custom = answer.putObject("custom");
        found.getCustomMetadata().forEach((key, value) ->
                custom.put(key, new String(value, StandardCharsets.UTF_8)));
        return answer;
    }

    private static byte[] password(JsonNode c) {
        return c.path("password").asText("").getBytes(StandardCharsets.UTF_8);
    }
}
