// franz-go by the doors of stdin, one JSON object a line: writes a record and reads it in a group.
// Prints for each door its name, and its error or "ok".
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type door struct {
	Name      string `json:"name"`
	Bootstrap string `json:"bootstrap"`
	CA        string `json:"ca"`
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
	ByToken   bool   `json:"by_token"`
	JWT       string `json:"jwt"`
	Store     string `json:"store"`
	Topic     string `json:"topic"`
	Group     string `json:"group"`
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	doors := json.NewDecoder(os.Stdin)
	for {
		var one door
		if err := doors.Decode(&one); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		outcome := "ok"
		if err := one.use(ctx); err != nil {
			outcome = err.Error()
		}
		fmt.Printf("%s: %s\n", one.Name, outcome)
	}
}

func (d door) use(ctx context.Context) error {
	options, err := d.options()
	if err != nil {
		return err
	}
	producer, err := kgo.NewClient(append(options, kgo.DefaultProduceTopic(d.Topic), kgo.AllowAutoTopicCreation())...)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.Ping(ctx); err != nil { // without, it goes on trying a wrong password
		return err
	}
	if err := producer.ProduceSync(ctx, kgo.StringRecord("value")).FirstErr(); err != nil {
		return err
	}
	consumer, err := kgo.NewClient(append(options, kgo.ConsumeTopics(d.Topic), kgo.ConsumerGroup(d.Group))...)
	if err != nil {
		return err
	}
	defer consumer.Close()
	fetches := consumer.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		return err
	}
	for _, record := range fetches.Records() {
		if string(record.Value) != "value" {
			return fmt.Errorf("%q was not written", record.Value)
		}
	}
	return consumer.CommitUncommittedOffsets(ctx)
}

func (d door) options() ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.SeedBrokers(d.Bootstrap)}
	if d.Mechanism != "" {
		mechanism, err := d.mechanism()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(mechanism))
	}
	if d.CA == "" {
		return options, nil
	}
	pem, err := os.ReadFile(d.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if d.Store != "" {
		own, err := tls.LoadX509KeyPair(d.Store, d.Store)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return append(options, kgo.DialTLSConfig(config)), nil
}

func (d door) mechanism() (sasl.Mechanism, error) {
	byScram := scram.Auth{User: d.User, Pass: d.Password, IsToken: d.ByToken}
	switch d.Mechanism {
	case "PLAIN":
		return plain.Auth{User: d.User, Pass: d.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return byScram.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return byScram.AsSha512Mechanism(), nil
	case "OAUTHBEARER":
		return oauth.Auth{Token: d.JWT}.AsMechanism(), nil
	}
	return nil, fmt.Errorf("%s is not known here", d.Mechanism)
}
