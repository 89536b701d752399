package clienttest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/goredisconn"
	"github.com/seed-30da4c49/sash/sashredis/rueidisconn"
)

// newPatient returns a limiter whose calls the store decides, and which denies if it does not.
func newPatient(t *testing.T, conn sashredis.Conn, limits ...sash.Limit) *sashredis.Limiter {
	l, err := sashredis.New(conn, limits, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(ample))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// aclOfReadme returns the command of sashredis's README that makes a user of Redis.
func aclOfReadme(t *testing.T) []string {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for line := range strings.Lines(string(readme)) {
		if strings.HasPrefix(line, "ACL SETUSER ") {
			return strings.Fields(line)
		}
	}
	require.Fail(t, "the README has no ACL SETUSER")
	return nil
}

// everyCall makes calls of each kind, under each algorithm, until one fails, and returns why it did.
func everyCall(t *testing.T, l *sashredis.Limiter, all [][]sash.Limit) (err error) {
	ctx := t.Context()
	calls := []func(key string) error{
		func(key string) error { return l.Take(ctx, key, 30).Err },
		func(key string) error { return l.Take(ctx, key, 20).Err }, // denied: when are 20 there again?
		func(key string) error { return l.Peek(ctx, key, 1).Err },
		func(key string) error { return l.TakeLeaving(ctx, key, 1, 1).Err },
		func(key string) error { return l.TakeAll(ctx, []string{key, key + "2"}, 1).Err },
		func(key string) error { return l.Wait(ctx, key, 1) },
		func(key string) error {
			_, d := l.TakeUpTo(ctx, key, 100)
			return d.Err
		},
		func(key string) error { return l.Reset(ctx, key) },
	}
	for i := range all {
		key := string(rune('a' + i))
		for range 12 { // charges at several instants, a part of each given back
			r, d := l.Reserve(ctx, key, 3)
			if err = errors.Join(d.Err, r.Commit(ctx, 1)); err != nil {
				return err
			}
		}
		for _, call := range calls {
			if err = call(key); err != nil {
				return err
			}
		}
	}
	return nil
}

// The README's user may do what sashredis does, and no more: without any of its commands, some call fails.
func TestDeployment_TheUserOfTheReadme(t *testing.T) {
	all := [][]sash.Limit{
		{sash.Per(60, time.Hour).Log()}, {sash.Per(60, time.Hour).Counter()}, {sash.Per(60, time.Hour).Parts()},
		{sash.Per(60, time.Hour).Buckets(time.Minute)}, {sash.Per(60, time.Hour).TokenBucket(60)},
		{sash.AtOnce(60, time.Hour)}, {sash.Per(60, time.Hour).Log(), sash.Per(60, time.Minute).Counter()},
	}
	limits := sashredis.WithLimitsFor(func(key string) []sash.Limit { return all[key[0]-'a'] })
	acl := aclOfReadme(t)
	password := strings.TrimPrefix(acl[slices.IndexFunc(acl, func(w string) bool { return strings.HasPrefix(w, ">") })], ">")
	server := redistest.Start(t)
	conns := map[string]func() (sashredis.Conn, func()){
		"goredis": func() (sashredis.Conn, func()) {
			client := redis.NewClient(&redis.Options{Network: "unix", Addr: server.Addr(), Username: acl[2], Password: password})
			return goredisconn.New(client), func() { client.Close() }
		},
		"rueidis": func() (sashredis.Conn, func()) {
			client, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{"server"}, ForceSingleClient: true, DisableCache: true, Username: acl[2], Password: password,
				DialCtxFn: func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, "unix", server.Addr())
				},
			})
			require.NoError(t, err)
			return rueidisconn.New(client), client.Close
		},
	}
	try := func(name string) error {
		server.Command("FLUSHALL")
		server.Command("SCRIPT", "FLUSH")
		conn, closeClient := conns[name]()
		defer closeClient()
		l, err := sashredis.New(conn, nil, limits, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(ample))
		require.NoError(t, err)
		defer l.Close()
		return everyCall(t, l, all)
	}
	for name := range conns {
		server.Command(acl...)
		require.NoError(t, try(name), name)
	}
	for _, word := range acl {
		if command, found := strings.CutPrefix(word, "+"); found {
			server.Command("ACL", "SETUSER", acl[2], "-"+command)
			require.Error(t, try("goredis"), "nothing needs %s", command)
			server.Command(acl...)
		}
	}
}

// selfSigned writes a certificate of 127.0.0.1 and its key to files, and returns a pool with it.
func selfSigned(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	write := func(name, kind string, data []byte) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
		return path
	}
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool = x509.NewCertPool()
	pool.AddCert(cert)
	return write("cert", "CERTIFICATE", der), write("key", "EC PRIVATE KEY", private), pool
}

// The clients bring TLS with them.
func TestDeployment_OverTLS(t *testing.T) {
	cert, key, pool := selfSigned(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := free.Addr().String()
	require.NoError(t, free.Close())
	_, port, _ := net.SplitHostPort(addr)
	redistest.Start(t, "--tls-port", port, "--bind", "127.0.0.1", "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")

	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	client := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: config})
	defer client.Close()
	other, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, TLSConfig: config, DisableCache: true, ForceSingleClient: true})
	require.NoError(t, err)
	defer other.Close()
	a, b := newPatient(t, goredisconn.New(client), sash.PerHour(3).Log()), newPatient(t, rueidisconn.New(other), sash.PerHour(3).Log())
	for _, l := range []*sashredis.Limiter{a, b, a} {
		d := l.Take(t.Context(), "k", 1)
		require.NoError(t, d.Err)
		require.True(t, d.Allowed)
	}
	require.False(t, b.Take(t.Context(), "k", 1).Allowed, "they share a count")

	distrustful := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}, MaxRetries: -1, DialerRetries: 1})
	defer distrustful.Close()
	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, newPatient(t, goredisconn.New(distrustful), sash.PerHour(3).Log()).Take(t.Context(), "k", 1).Err, &unknown)
}

// A Sentinel makes the replica the primary, and the clients find it. What the replica knew still counts.
func TestDeployment_BehindASentinel(t *testing.T) {
	primary, replica := redistest.StartReplicated(t)
	sentinel := redistest.StartSentinel(t, primary, "limits")
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "limits", SentinelAddrs: []string{sentinel.Addr()}})
	defer client.Close()
	other, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{sentinel.Addr()}, Sentinel: rueidis.SentinelOption{MasterSet: "limits"}, DisableCache: true})
	require.NoError(t, err)
	defer other.Close()
	all := []*sashredis.Limiter{newPatient(t, goredisconn.New(client), sash.PerHour(100).Log()), newPatient(t, rueidisconn.New(other), sash.PerHour(100).Log())}
	for _, l := range all {
		require.NoError(t, l.Take(t.Context(), "k", 20).Err)
	}
	replica.Until("the replica knows the key", func(ctx context.Context) bool {
		n, err := replica.Do(ctx, "DBSIZE")
		return err == nil && n == int64(1)
	})
	primary.Kill()
	for _, l := range all {
		replica.Until("the new primary decides", func(context.Context) bool { return l.Take(t.Context(), "k", 1).Err == nil })
	}
	d := all[0].Peek(t.Context(), "k", 0)
	require.NoError(t, d.Err)
	require.LessOrEqual(t, d.Remaining, int64(100-2*20-2), "what was charged before counts")
	require.Greater(t, d.Remaining, int64(0))
}
