package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Every second transaction aborts; readers of committed records see the others, in order.
func transactions(ctx context.Context, bootstrap, topic string) error {
	topic += "-committed"
	cl, err := client(bootstrap, kgo.TransactionalID("id-"+topic), kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation())
	if err != nil {
		return err
	}
	defer cl.Close()
	for n := range 6 {
		if err := cl.BeginTransaction(); err != nil {
			return err
		}
		if err := cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(n))).FirstErr(); err != nil {
			return err
		}
		if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(n%2 == 0)); err != nil {
			return err
		}
	}
	return onlyCommitted(ctx, bootstrap, topic, "0", "2", "4")
}

// A session reads, writes and commits both; its offsets are the group's.
func session(ctx context.Context, bootstrap, topic string) error {
	to := topic + "-moved"
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID("id-"+to), kgo.ConsumerGroup("group-"+to),
		kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DefaultProduceTopic(to), kgo.AllowAutoTopicCreation(), kgo.RequireStableFetchOffsets(),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for moved := 0; moved < records+1; {
		fetches := session.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		if err := session.Begin(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, kgo.SliceRecord(record.Value), nil)
		})
		committed, err := session.End(ctx, kgo.TryCommit)
		if err != nil {
			return err
		}
		if committed {
			moved += fetches.NumRecords()
		}
	}
	cl, err := client(bootstrap, kgo.ConsumeTopics(to), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer cl.Close()
	_, err = read(ctx, cl, records+1)
	return err
}

func onlyCommitted(ctx context.Context, bootstrap, topic string, wanted ...string) error {
	cl, err := client(bootstrap, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer cl.Close()
	found, err := read(ctx, cl, len(wanted))
	if err != nil {
		return err
	}
	for n, record := range found {
		if string(record.Value) != wanted[n] {
			return fmt.Errorf("%s where %s was committed", record.Value, wanted[n])
		}
	}
	return nil
}

// What kadm asks beside topics: offsets, lag, transactions, groups that are deleted.
func administer(ctx context.Context, bootstrap, topic string) error {
	cl, err := client(bootstrap)
	if err != nil {
		return err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	described, err := admin.DescribeTransactions(ctx, "id-"+topic+"-committed")
	if err != nil {
		return err
	}
	if state := described["id-"+topic+"-committed"].State; state != "CompleteAbort" {
		return fmt.Errorf("the transaction is %s", state)
	}
	group := "group-" + topic
	lags, err := admin.Lag(ctx, group)
	if err != nil {
		return err
	}
	if lag := lags[group].Lag.Total(); lag != 0 {
		return fmt.Errorf("lag of %d", lag)
	}
	deleted, err := admin.DeleteGroups(ctx, group)
	if err != nil || deleted[group].Err != nil {
		return fmt.Errorf("delete: %w, %w", err, deleted[group].Err)
	}
	again, err := admin.DeleteGroups(ctx, group)
	if err != nil {
		return err
	}
	if !errors.Is(again[group].Err, kerr.GroupIDNotFound) {
		return fmt.Errorf("deleted twice: %v", again[group].Err)
	}
	_, err = admin.DeleteTopics(ctx, topic)
	return err
}
