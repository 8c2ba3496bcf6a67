// Command connect takes a lock on one server, on a cluster or behind Sentinel, with TLS or without.
//
//	go run ./rlock_test/examples/connect -addr localhost:6379
//	go run ./rlock_test/examples/connect -addr node-1:6379,node-2:6379
//	go run ./rlock_test/examples/connect -addr sentinel-1:26379,sentinel-2:26379 -sentinel primary
//	go run ./rlock_test/examples/connect -addr redis.example:6380 -tls -ca ca.crt
//
// The client finds out by itself whether the server is a cluster. Put the password into REDIS_PASSWORD, so
// that no list of processes shows it.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
)

func main() {
	option, err := options()
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	locker, err := rlock.Open(option)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	report, err := locker.Probe(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := report.Err(); err != nil {
		log.Fatal(err) // says what is missing, and what to do about it
	}
	fmt.Println("nothing is missing")
	err = locker.Do(ctx, "order:17", func(ctx context.Context, lock *rlock.Lock) error {
		fmt.Println("alone with", lock.Key())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

func options() (rueidis.ClientOption, error) {
	addresses := flag.String("addr", "localhost:6379",
		"addresses, with commas in between: of the server, of some nodes of a cluster, or of the sentinels")
	sentinel := flag.String("sentinel", "", "name of the primary, if the addresses are those of sentinels")
	username := flag.String("user", "", "name of the user")
	secure := flag.Bool("tls", false, "use TLS")
	authority := flag.String("ca", "",
		"file with the authority that has signed the server's certificate; without it, the system's")
	flag.Parse()

	option := rueidis.ClientOption{
		InitAddress: strings.Split(*addresses, ","),
		Username:    *username,
		Password:    os.Getenv("REDIS_PASSWORD"),
		// Without the interval, the client of a cluster learns of a failover from the first call that fails.
		ClusterOption: rueidis.ClusterOption{ShardsRefreshInterval: time.Second},
		// With Sentinel, Username and Password are those of the server. SENTINEL_PASSWORD is for the
		// sentinels.
		Sentinel: rueidis.SentinelOption{MasterSet: *sentinel, Password: os.Getenv("SENTINEL_PASSWORD")},
	}
	if !*secure {
		return option, nil
	}
	option.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if *authority != "" {
		text, err := os.ReadFile(*authority)
		if err != nil {
			return option, err
		}
		option.TLSConfig.RootCAs = x509.NewCertPool()
		if !option.TLSConfig.RootCAs.AppendCertsFromPEM(text) {
			return option, errors.New(*authority + " has no certificate in PEM")
		}
	}
	option.Sentinel.TLSConfig = option.TLSConfig
	return option, nil
}
