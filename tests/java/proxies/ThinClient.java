// A thin client in Java, from generated code: write, be redirected, read.
//
//     ThinClient WRITE_PROXY READ_PROXY STREAM
//
// WRITE_PROXY does not own the stream: the first write is redirected to the owner. Prints the host
// that wrote, then each record as it is read.

import com.google.protobuf.ByteString;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.stub.StreamObserver;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;
import tailrace.proxy.v1.ReadProxyGrpc;
import tailrace.proxy.v1.ReadRequest;
import tailrace.proxy.v1.ReadResponse;
import tailrace.proxy.v1.ResponseHeader;
import tailrace.proxy.v1.StatusCode;
import tailrace.proxy.v1.WriteContext;
import tailrace.proxy.v1.WriteProxyGrpc;
import tailrace.proxy.v1.WriteRequest;
import tailrace.proxy.v1.WriteResponse;
import tailrace.proxy.v1.WriteStreamRequest;
import tailrace.proxy.v1.WriteStreamResponse;

public final class ThinClient {
    private static final int STREAMED = 100;
    private static final int WITHIN_S = 20;

    private static final List<ManagedChannel> CHANNELS = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        try {
            String owner = write(args[0], args[2], "java 0");
            System.out.println("owner " + owner);
            writeStream(owner, args[2]);
            read(args[1], args[2]);
        } finally {
            for (ManagedChannel channel : CHANNELS) {
                channel.shutdownNow().awaitTermination(WITHIN_S, TimeUnit.SECONDS);
            }
        }
    }

    private static ManagedChannel connect(String host) {
        ManagedChannel channel =
            Grpc.newChannelBuilder(host, InsecureChannelCredentials.create()).build();
        CHANNELS.add(channel);
        return channel;
    }

    /** Covers the stream's name, then the payloads. */
    private static int checksum(String stream, ByteString... payloads) {
        CRC32 checksum = new CRC32();
        checksum.update(stream.getBytes(StandardCharsets.UTF_8));
        for (ByteString payload : payloads) {
            checksum.update(payload.toByteArray());
        }
        return (int) checksum.getValue();
    }

    /** Follows redirects; returns the host that took the record. */
    private static String write(String first, String stream, String text) {
        String host = first;
        ByteString payload = ByteString.copyFromUtf8(text);
        List<String> tried = new ArrayList<>();
        while (tried.size() < 3) {
            WriteContext context = WriteContext.newBuilder()
                .addAllTriedHosts(tried)
                .setCrc32(checksum(stream, payload))
                .build();
            WriteResponse answer = WriteProxyGrpc.newBlockingStub(connect(host))
                .withDeadlineAfter(WITHIN_S, TimeUnit.SECONDS)
                .write(WriteRequest.newBuilder()
                    .setStream(stream)
                    .setPayload(payload)
                    .setContext(context)
                    .build());
            ResponseHeader header = answer.getHeader();
            if (header.getCode() == StatusCode.SUCCESS) {
                return host;
            }
            if (header.getCode() != StatusCode.FOUND) {
                throw new IllegalStateException(header.toString());
            }
            System.out.println("redirected to " + header.getLocation());
            tried.add(host);
            host = header.getLocation().split(";", 3)[2];
        }
        throw new IllegalStateException("redirected too often");
    }

    /** Sends all records at once, and takes the answers in the order of the requests. */
    private static void writeStream(String host, String stream) throws Exception {
        CompletableFuture<Void> ended = new CompletableFuture<>();
        StreamObserver<WriteStreamRequest> requests =
            WriteProxyGrpc.newStub(connect(host)).writeStream(new Answers(ended));
        WriteContext context = WriteContext.newBuilder().setCrc32(checksum(stream)).build();
        requests.onNext(WriteStreamRequest.newBuilder()
            .setOpen(WriteStreamRequest.Open.newBuilder().setStream(stream).setContext(context))
            .build());
        for (int number = 1; number <= STREAMED; number++) {
            ByteString payload = ByteString.copyFromUtf8("java " + number);
            requests.onNext(WriteStreamRequest.newBuilder()
                .setRecords(WriteStreamRequest.Records.newBuilder()
                    .setId(number)
                    .addPayloads(payload)
                    .setCrc32(checksum(stream, payload)))
                .build());
        }
        requests.onCompleted();
        ended.get(WITHIN_S, TimeUnit.SECONDS);
    }

    private static void read(String host, String stream) {
        ReadRequest request = ReadRequest.newBuilder()
            .setStream(stream)
            .setEdge(ReadRequest.Edge.OLDEST)
            .setRecordsMax(STREAMED + 1)
            .setTail(true)
            .build();
        Iterator<ReadResponse> answers = ReadProxyGrpc.newBlockingStub(connect(host))
            .withDeadlineAfter(WITHIN_S, TimeUnit.SECONDS)
            .read(request);
        answers.forEachRemaining(answer -> {
            if (answer.getHeader().getCode() != StatusCode.SUCCESS) {
                throw new IllegalStateException(answer.getHeader().toString());
            }
            answer.getRecordsList().forEach(
                record -> System.out.println("read " + record.getPayload().toStringUtf8()));
        });
    }

    private static final class Answers implements StreamObserver<WriteStreamResponse> {
        private final CompletableFuture<Void> ended;
        private long next;

        Answers(CompletableFuture<Void> ended) {
            this.ended = ended;
        }

        @Override
        public void onNext(WriteStreamResponse answer) {
            if (answer.getHeader().getCode() != StatusCode.SUCCESS || answer.getId() != next++) {
                ended.completeExceptionally(new IllegalStateException(answer.toString()));
            }
        }

        @Override
        public void onError(Throwable error) {
            ended.completeExceptionally(error);
        }

        @Override
        public void onCompleted() {
            if (next == STREAMED + 1) {
                ended.complete(null);
            } else {
                ended.completeExceptionally(new IllegalStateException(next + " answers"));
            }
        }
    }
}
