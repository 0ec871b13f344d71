// Smoke of franz-go against a broker: what its users do first, with its defaults.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions = 3
	records    = 300
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	bootstrap, topic := os.Args[1], os.Args[2]
	steps := []struct {
		name string
		run  func(context.Context, string, string) error
	}{
		{"create and list", createAndList},
		{"produce", produce},
		{"consume", consume},
		{"group", group},
		{"second member", secondMember},
		{"transactions", transactions},
		{"session", session},
		{"administer", administer},
	}
	for _, step := range steps {
		if err := step.run(ctx, bootstrap, topic); err != nil {
			fmt.Printf("%s: %v\n", step.name, err)
			os.Exit(1)
		}
		fmt.Println(step.name, "ok")
	}
}

func client(bootstrap string, options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap))...)
}

func createAndList(ctx context.Context, bootstrap, topic string) error {
	cl, err := client(bootstrap)
	if err != nil {
		return err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	keep := "86400000"
	made, err := admin.CreateTopic(ctx, partitions, -1, map[string]*string{"retention.ms": &keep}, topic)
	if err != nil {
		return err
	}
	if made.NumPartitions != partitions || made.ReplicationFactor != 1 {
		return fmt.Errorf("made with %d partitions, %d copies", made.NumPartitions, made.ReplicationFactor)
	}
	listed, err := admin.ListTopics(ctx)
	if err != nil {
		return err
	}
	found, ok := listed[topic]
	if !ok || len(found.Partitions) != partitions || found.ID != made.ID {
		return fmt.Errorf("listed as %+v", found)
	}
	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	on, err := configs.On(topic, nil)
	if err != nil {
		return err
	}
	for _, config := range on.Configs {
		if config.Key == "retention.ms" && config.MaybeValue() != keep {
			return fmt.Errorf("retention.ms is %s", config.MaybeValue())
		}
	}
	return nil
}

// Idempotent, acks=all, snappy: the defaults.
func produce(ctx context.Context, bootstrap, topic string) error {
	cl, err := client(bootstrap, kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer cl.Close()
	batch := make([]*kgo.Record, records)
	for n := range batch {
		batch[n] = kgo.KeySliceRecord(fmt.Appendf(nil, "k%d", n), fmt.Appendf(nil, "v%d", n))
	}
	if err := cl.ProduceSync(ctx, batch...).FirstErr(); err != nil {
		return err
	}
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	var total int64
	ends.Each(func(end kadm.ListedOffset) { total += end.Offset })
	if total != records {
		return fmt.Errorf("%d records at the end, %d were sent", total, records)
	}
	return nil
}

func consume(ctx context.Context, bootstrap, topic string) error {
	cl, err := client(bootstrap, kgo.ConsumeTopics(topic))
	if err != nil {
		return err
	}
	defer cl.Close()
	found, err := read(ctx, cl, records)
	if err != nil {
		return err
	}
	next := map[int32]int64{}
	for _, record := range found {
		if record.Offset != next[record.Partition] {
			return fmt.Errorf("partition %d: %d after %d", record.Partition, record.Offset, next[record.Partition]-1)
		}
		next[record.Partition]++
		if string(record.Key[1:]) != string(record.Value[1:]) {
			return fmt.Errorf("%s with %s", record.Key, record.Value)
		}
	}
	return nil
}

// The default balancer is the cooperative one; the second client goes on where the first committed.
func group(ctx context.Context, bootstrap, topic string) error {
	for _, expected := range []int{records, 1} {
		cl, err := member(bootstrap, topic)
		if err != nil {
			return err
		}
		defer cl.Close()
		if expected == 1 {
			last := kgo.KeyStringRecord("k", "last")
			last.Topic = topic
			if err := cl.ProduceSync(ctx, last).FirstErr(); err != nil {
				return err
			}
		}
		found, err := read(ctx, cl, expected)
		if err != nil {
			return err
		}
		if expected == 1 && string(found[0].Value) != "last" {
			return fmt.Errorf("went on at %s", found[0].Value)
		}
		if err := cl.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
		cl.Close()
	}
	return nil
}

// Somebody joins a group that runs: both end with partitions, none with an error.
func secondMember(ctx context.Context, bootstrap, topic string) error {
	assigned := make(chan struct{}, 16)
	onAssigned := kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
		if len(got[topic]) > 0 {
			assigned <- struct{}{}
		}
	})
	for range 2 {
		cl, err := member(bootstrap, topic, onAssigned)
		if err != nil {
			return err
		}
		defer cl.Close()
		select {
		case <-assigned:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	cl, err := client(bootstrap)
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		described, err := kadm.NewClient(cl).DescribeGroups(ctx, "group-"+topic)
		if err != nil {
			return err
		}
		one := described["group-"+topic]
		if one.State == "Stable" && len(one.Members) == 2 {
			counts := []int{}
			for _, each := range one.Members {
				if consumer, ok := each.Assigned.AsConsumer(); ok {
					for _, of := range consumer.Topics {
						counts = append(counts, len(of.Partitions))
					}
				}
			}
			slices.Sort(counts)
			if slices.Equal(counts, []int{1, 2}) {
				return nil
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the group is %s with %d members", one.State, len(one.Members))
		}
	}
}

func member(bootstrap, topic string, options ...kgo.Opt) (*kgo.Client, error) {
	return client(bootstrap, append(options, kgo.ConsumeTopics(topic), kgo.ConsumerGroup("group-"+topic))...)
}

func read(ctx context.Context, cl *kgo.Client, count int) ([]*kgo.Record, error) {
	var found []*kgo.Record
	for len(found) < count {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("after %d records: %w", len(found), err)
		}
		found = append(found, fetches.Records()...)
	}
	if len(found) != count {
		return nil, fmt.Errorf("%d records, %d were expected", len(found), count)
	}
	return found, nil
}
