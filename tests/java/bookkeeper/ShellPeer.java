import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.bookkeeper.bookie.BookieShell;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.util.EntryFormatter;
import org.apache.bookkeeper.util.LedgerIdFormatter;
import org.apache.commons.configuration2.CompositeConfiguration;
import org.apache.commons.configuration2.builder.fluent.Configurations;

/**
 * BookKeeper's shell, one command after the other in this JVM: {"conf", "args"} gives {"code", "out", "err"}.
 *
 * <p>Each command has a shell of its own, which is given what BookieShell.main gives one.
 */
public final class ShellPeer extends Peer {
    public static void main(String[] args) throws Exception {
        for (String name : List.of("bookie", "tools")) {  // where commands log what they find
            System.setProperty("org.slf4j.simpleLogger.log.org.apache.bookkeeper." + name, "info");
        }
        new ShellPeer().serve();
    }

    @Override
    protected int code(Throwable error) {
        return 0;
    }

    @Override
    protected synchronized ObjectNode run(JsonNode c) throws Exception {
        CompositeConfiguration conf = new CompositeConfiguration();
        conf.addConfiguration(new Configurations().properties(new File(c.get("conf").asText())));
        ServerConfiguration server = new ServerConfiguration();
        server.loadConf(conf);
        List<String> words = new ArrayList<>();
        c.get("args").forEach(word -> words.add(word.asText()));
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream logged = new ByteArrayOutputStream();
        PrintStream out = System.out;
        PrintStream err = System.err;
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(logged, true, StandardCharsets.UTF_8));
        int code;
        try {
            BookieShell shell = new BookieShell(
                    LedgerIdFormatter.newLedgerIdFormatter(server), EntryFormatter.newEntryFormatter(server));
            shell.setConf(conf);
            code = shell.run(words.toArray(new String[0]));
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return object().put("code", code).put("out", printed.toString(StandardCharsets.UTF_8))
                .put("err", logged.toString(StandardCharsets.UTF_8));
    }
}
