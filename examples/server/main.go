// Command server is a small service with four routes under different policies. Its page, at /,
// sends requests, and shows how the windows slide and what is under way. Run the server, and
// open the page that it prints or run the commands that it prints:
//
//	go run ./examples/server
//	go run ./examples/server -addr 127.0.0.1:9090 -hello "3/s log"
//	go run ./examples/server -hello "2/s burst 20"
//	go run ./examples/server -export "2 at once"
//
// With -redis, it runs two instances that share their counts in Redis or Valkey. The page then
// sends requests to both of them in turn. Without a server at hand, use the one in this process:
//
//	go run ./examples/server -redis embedded
//	go run ./examples/server -redis 127.0.0.1:6379
//	go run ./examples/server -redis unix:/run/redis/redis.sock
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage): // it is printed
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage")

// run serves until ctx is done. Then it breaks exports off, and waits for the other requests that are
// under way.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	limits := defaultLimits()
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.SetOutput(stderr)
	addr := flags.String("addr", "127.0.0.1:8080", "`address` to listen on")
	redis := flags.String("redis", "", "run two instances that share their counts in the Redis at that `address`: HOST:PORT, unix:PATH, or embedded for one in this process")
	flags.TextVar(&limits.Hello, "hello", limits.Hello, "`limit` of /hello for each address, such as 20/10s, \"3/s log\" or \"2/s burst 20\"")
	flags.TextVar(&limits.Quote, "quote", limits.Quote, "`limit` of /quote for each API key")
	flags.TextVar(&limits.Login, "login", limits.Login, "`limit` of failed /login for each account from each address")
	flags.TextVar(&limits.LoginAddress, "login-address", limits.LoginAddress, "`limit` of failed /login from each address, for all accounts together")
	flags.TextVar(&limits.Export, "export", limits.Export, "`limit` of /export for each address, such as \"3 at once\"")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "server: %q is no flag\n", flags.Arg(0))
		return errUsage
	}
	options := withLog(stderr, nil)
	instances := 1
	if *redis != "" {
		store, err := openRedis(ctx, *redis)
		if err != nil {
			return err
		}
		defer store.Close()
		options = append(options, httplimit.WithStore(store.open))
		instances = 2
	}
	listeners, err := listen(*addr, instances)
	if err != nil {
		return err
	}
	var handlers []http.Handler
	origins := originsOf(listeners)
	for range listeners {
		service, err := newService(config{limits, cleanPanes(ctx), origins}, options...)
		if err != nil {
			closeAll(listeners)
			return err
		}
		defer service.Close()
		handlers = append(handlers, service)
	}
	fmt.Fprintf(stdout, welcome, origins[0], admits(limits.Hello)+2, admits(limits.Login)+2, admits(limits.Export))
	for _, other := range origins[1:] {
		fmt.Fprintf(stdout, welcomeOther, other)
	}
	return serve(ctx, listeners, handlers)
}

// listen listens on an address and, for each further instance, on the next port. If the port is 0,
// each gets a free one.
func listen(addr string, instances int) (listeners []net.Listener, err error) {
	for range instances {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			closeAll(listeners)
			return nil, err
		}
		listeners = append(listeners, l)
		host, port, _ := net.SplitHostPort(addr)
		if n, err := strconv.Atoi(port); err == nil && n > 0 {
			addr = net.JoinHostPort(host, strconv.Itoa(n+1))
		}
	}
	return listeners, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
}

// originsOf returns the URLs of listeners, without a slash at their end.
func originsOf(listeners []net.Listener) (origins []string) {
	for _, l := range listeners {
		origins = append(origins, "http://"+l.Addr().String())
	}
	return origins
}

// serve serves on each listener with its handler, until ctx is done or one of them fails. Then it
// waits for the requests under way.
func serve(ctx context.Context, listeners []net.Listener, handlers []http.Handler) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, len(listeners))
	for i, l := range listeners {
		go func() {
			defer stop()
			ended <- serveOne(ctx, l, handlers[i])
		}()
	}
	var errs []error
	for range listeners {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

func serveOne(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second, // the form of a login is read before it is admitted
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	ended := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		ended <- server.Shutdown(patience)
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}

// admits returns how many requests of a new client l admits at one instant, if they are less than
// mostTried: the server prints no command that starts a great many.
func admits(l sash.Limit) int64 {
	if l.Algorithm == sash.TokenBucket {
		return min(l.Burst, mostTried)
	}
	return min(l.Count, mostTried)
}

const mostTried = 100

const welcome = `Watch the windows slide:

  %[1]s/

Or try it from another shell. /hello is limited by address:

  for i in $(seq %[2]d); do curl -s -o /dev/null -w '%%{http_code} ' %[1]s/hello; done; curl -i %[1]s/hello

/quote by API key, demo-alice or demo-bob:

  curl -i -H 'X-API-Key: demo-alice' %[1]s/quote

/login by failures on each account from each address; alice's password is "sash":

  for i in $(seq %[3]d); do curl -s -o /dev/null -w '%%{http_code} ' -d account=alice -d password=wrong %[1]s/login; done
  curl -i -d account=alice -d password=sash %[1]s/login

/export takes three seconds. It is limited by what is under way at a time for each address:

  for i in $(seq %[4]d); do curl -s -o /dev/null %[1]s/export & done; sleep 1; curl -i %[1]s/export; wait

A client that hangs up gives its unit back at once. Interrupt this one:

  curl -N %[1]s/export

To ask what is left of /hello, /quote and /export, and be charged nothing:

  curl -I %[1]s/hello

To list the clients that are denied most now, as a page or in JSON:

  %[1]s/debug/offenders
  curl -H 'Accept: application/json' %[1]s/debug/offenders

`

const welcomeOther = `Another instance shares the counts. Try both in turn:

  %s/

`
