// A thin client in Go, from generated code: write, be redirected, read.
//
//	main WRITE_PROXY READ_PROXY STREAM
//
// WRITE_PROXY does not own the stream: the first write is redirected to the owner. Prints the host
// that wrote, then each record as it is read.
package main

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "tailrace/tests/interop/proxies/go/proxyv1"
)

const streamed = 100

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	writeProxy, readProxy, stream := os.Args[1], os.Args[2], os.Args[3]
	owner := write(ctx, writeProxy, stream, []byte("go 0"))
	fmt.Println("owner", owner)
	writeStream(ctx, owner, stream)
	read(ctx, readProxy, stream)
}

func connect(host string) *grpc.ClientConn {
	connection, err := grpc.NewClient(host, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	return connection
}

// checksum covers the stream's name, then the payloads.
func checksum(stream string, payloads ...[]byte) *uint32 {
	value := crc32.ChecksumIEEE([]byte(stream))
	for _, payload := range payloads {
		value = crc32.Update(value, crc32.IEEETable, payload)
	}
	return &value
}

// write follows redirects and returns the host that took the record.
func write(ctx context.Context, host, stream string, payload []byte) string {
	var tried []string
	for len(tried) < 3 {
		connection := connect(host)
		defer connection.Close()
		answer, err := pb.NewWriteProxyClient(connection).Write(ctx, &pb.WriteRequest{
			Stream:  stream,
			Payload: payload,
			Context: &pb.WriteContext{TriedHosts: tried, Crc32: checksum(stream, payload)},
		})
		check(err)
		switch answer.Header.Code {
		case pb.StatusCode_SUCCESS:
			return host
		case pb.StatusCode_FOUND:
			fmt.Println("redirected to", answer.Header.Location)
			tried = append(tried, host)
			host = strings.SplitN(answer.Header.Location, ";", 3)[2]
		default:
			fail(answer.Header)
		}
	}
	panic("redirected too often")
}

// writeStream sends all records at once, and takes the answers in the order of the requests.
func writeStream(ctx context.Context, host, stream string) {
	connection := connect(host)
	defer connection.Close()
	call, err := pb.NewWriteProxyClient(connection).WriteStream(ctx)
	check(err)
	open := &pb.WriteStreamRequest_Open{
		Stream:  stream,
		Context: &pb.WriteContext{Crc32: checksum(stream)},
	}
	check(call.Send(&pb.WriteStreamRequest{
		Request: &pb.WriteStreamRequest_Open_{Open: open},
	}))
	for number := int64(1); number <= streamed; number++ {
		payload := []byte(fmt.Sprintf("go %d", number))
		records := &pb.WriteStreamRequest_Records{
			Id:       number,
			Payloads: [][]byte{payload},
			Crc32:    checksum(stream, payload),
		}
		check(call.Send(&pb.WriteStreamRequest{
			Request: &pb.WriteStreamRequest_Records_{Records: records},
		}))
	}
	check(call.CloseSend())
	for number := int64(0); number <= streamed; number++ {
		answer, err := call.Recv()
		check(err)
		if answer.Header.Code != pb.StatusCode_SUCCESS || answer.Id != number {
			fail(answer.Header)
		}
	}
	if _, err = call.Recv(); err != io.EOF {
		panic(fmt.Sprint("more answers than requests: ", err))
	}
}

func read(ctx context.Context, host, stream string) {
	connection := connect(host)
	defer connection.Close()
	call, err := pb.NewReadProxyClient(connection).Read(ctx, &pb.ReadRequest{
		Stream:     stream,
		Start:      &pb.ReadRequest_Edge_{Edge: pb.ReadRequest_OLDEST},
		RecordsMax: streamed + 1,
		Tail:       true,
	})
	check(err)
	for {
		answer, err := call.Recv()
		if err == io.EOF {
			return
		}
		check(err)
		if answer.Header.Code != pb.StatusCode_SUCCESS {
			fail(answer.Header)
		}
		for _, record := range answer.Records {
			fmt.Println("read", string(record.Payload))
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func fail(header *pb.ResponseHeader) {
	panic(fmt.Sprint(header))
}
