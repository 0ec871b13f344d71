import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.StringJoiner;
import org.apache.bookkeeper.bookie.Cookie;
import org.apache.bookkeeper.client.LedgerMetadataBuilder;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.meta.LedgerMetadataSerDe;
import org.apache.bookkeeper.net.BookieId;

/**
 * BookKeeper's own metadata classes behind stdin and stdout, one line in, one line out.
 *
 *   write VERSION;E;Qw;Qa;STATE;LAST;LENGTH;DIGEST;PASSWORD;CTIME;CTOKEN;CUSTOM;FRAGMENTS -> hex of the node
 *   read HEX     -> the same words
 *   again HEX    -> hex of the node after Java has read it and written it
 *   cookie HEX   -> hex of a cookie after Java has parsed it and formatted it
 *
 * PASSWORD and CTIME may be "-" (none); PASSWORD and values are hex; CUSTOM is KEYHEX=VALUE,...; FRAGMENTS is
 * FIRST:BOOKIE|BOOKIE,... with hex bookies. An answer that begins with "!" is an exception.
 */
public final class MetadataPeer {
    private static final HexFormat HEX = HexFormat.of();
    private static final LedgerMetadataSerDe SERDE = new LedgerMetadataSerDe();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", 2);
            String answer;
            try {
                answer = answer(words[0], words.length > 1 ? words[1] : "");
            } catch (Throwable error) {
                answer = "!" + error.toString().replace('\n', ' ');
            }
            out.println(answer);
            out.flush();
        }
    }

    private static String answer(String what, String argument) throws Exception {
        switch (what) {
            case "write":
                return HEX.formatHex(SERDE.serialize(metadata(argument.split(";", -1))));
            case "read":
                return words(parse(argument));
            case "again":
                return HEX.formatHex(SERDE.serialize(parse(argument)));
            case "cookie":
                return cookie(new String(HEX.parseHex(argument), StandardCharsets.UTF_8));
            default:
                throw new IllegalArgumentException(what);
        }
    }

    private static LedgerMetadata parse(String hex) throws Exception {
        return SERDE.parseConfig(HEX.parseHex(hex), 7, Optional.empty());
    }

    private static String cookie(String text) throws Exception {
        Cookie cookie = Cookie.parseFromBytes(text.getBytes(StandardCharsets.UTF_8));
        return HEX.formatHex(cookie.toString().getBytes(StandardCharsets.UTF_8));
    }

    private static LedgerMetadata metadata(String[] words) {
        LedgerMetadataBuilder builder = LedgerMetadataBuilder.create()
                .withId(7)
                .withMetadataFormatVersion(Integer.parseInt(words[0]))
                .withEnsembleSize(Integer.parseInt(words[1]))
                .withWriteQuorumSize(Integer.parseInt(words[2]))
                .withAckQuorumSize(Integer.parseInt(words[3]))
                .withCToken(Long.parseLong(words[10]));
        if (words[4].equals("CLOSED")) {
            builder.withClosedState().withLastEntryId(Long.parseLong(words[5])).withLength(Long.parseLong(words[6]));
        } else if (words[4].equals("IN_RECOVERY")) {
            builder.withInRecoveryState();
        }
        if (!words[8].equals("-")) {
            builder.withDigestType(DigestType.valueOf(words[7])).withPassword(HEX.parseHex(words[8]));
        }
        if (!words[9].equals("-")) {
            builder.withCreationTime(Long.parseLong(words[9])).storingCreationTime(true);
        }
        Map<String, byte[]> custom = new LinkedHashMap<>();
        for (String entry : parts(words[11])) {
            String[] pair = entry.split("=", 2);
            custom.put(text(pair[0]), HEX.parseHex(pair[1]));
        }
        builder.withCustomMetadata(custom);
        for (String fragment : parts(words[12])) {
            String[] pair = fragment.split(":", 2);
            List<BookieId> ensemble = new ArrayList<>();
            for (String bookie : pair[1].split("\\|")) {
                ensemble.add(BookieId.parse(text(bookie)));
            }
            builder.newEnsembleEntry(Long.parseLong(pair[0]), ensemble);
        }
        return builder.build();
    }

    private static String words(LedgerMetadata metadata) {
        StringJoiner custom = new StringJoiner(",");
        metadata.getCustomMetadata().forEach((key, value) -> custom.add(hex(key) + "=" + HEX.formatHex(value)));
        StringJoiner fragments = new StringJoiner(",");
        metadata.getAllEnsembles().forEach((first, ensemble) -> {
            StringJoiner bookies = new StringJoiner("|");
            ensemble.forEach(bookie -> bookies.add(hex(bookie.getId())));
            fragments.add(first + ":" + bookies);
        });
        boolean closed = metadata.isClosed();
        return String.join(
                ";",
                String.valueOf(metadata.getMetadataFormatVersion()),
                String.valueOf(metadata.getEnsembleSize()),
                String.valueOf(metadata.getWriteQuorumSize()),
                String.valueOf(metadata.getAckQuorumSize()),
                metadata.getState().name(),
                String.valueOf(closed ? metadata.getLastEntryId() : -1),
                String.valueOf(closed ? metadata.getLength() : 0),
                metadata.hasPassword() ? metadata.getDigestType().name() : "CRC32",
                metadata.hasPassword() ? HEX.formatHex(metadata.getPassword()) : "-",
                metadata.getCtime() < 0 ? "-" : String.valueOf(metadata.getCtime()),
                String.valueOf(metadata.getCToken()),
                custom.toString(),
                fragments.toString());
    }

    private static String[] parts(String joined) {
        return joined.isEmpty() ? new String[0] : joined.split(",");
    }

    private static String text(String hex) {
        return new String(HEX.parseHex(hex), StandardCharsets.UTF_8);
    }

    private static String hex(String text) {
        return HEX.formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
