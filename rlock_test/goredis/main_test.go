package goredis

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestMain(m *testing.M) { env.Main(m, nil) }

// single returns a client of one server.
func single(t *testing.T, server *env.Server, change ...func(*redis.Options)) *redis.Client {
	t.Helper()
	options := &redis.Options{Addr: server.Addr()}
	for _, f := range change {
		f(options)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// clustered returns a client of a cluster.
func clustered(t *testing.T, cluster *env.Cluster,
	change ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	options := &redis.ClusterOptions{Addrs: cluster.Addrs()}
	for _, f := range change {
		f(options)
	}
	client := redis.NewClusterClient(options)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}
