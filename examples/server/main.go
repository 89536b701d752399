// Command server is a small service with three routes under different policies. Its page,
// at /, sends requests and shows how the windows slide. Run the server, and open the page
// that it prints or run the commands that it prints:
//
//	go run ./examples/server
//	go run ./examples/server -addr 127.0.0.1:9090 -hello "3/s log"
//	go run ./examples/server -hello "2/s burst 20"
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
	"syscall"
	"time"

	"github.com/seed-30da4c49/sash"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage): // package flag has printed the error
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage")

// run serves until ctx is done, and then waits for the requests under way.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	limits := defaultLimits()
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.SetOutput(stderr)
	addr := flags.String("addr", "127.0.0.1:8080", "`address` to listen on")
	flags.TextVar(&limits.Hello, "hello", limits.Hello, "`limit` of /hello for each address, such as 20/10s, \"3/s log\" or \"2/s burst 20\"")
	flags.TextVar(&limits.Quote, "quote", limits.Quote, "`limit` of /quote for each API key")
	flags.TextVar(&limits.Login, "login", limits.Login, "`limit` of failed /login for each account from each address")
	flags.TextVar(&limits.LoginAddress, "login-address", limits.LoginAddress, "`limit` of failed /login from each address, for all accounts together")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	service, err := newService(limits, withLog(stderr)...)
	if err != nil {
		return err
	}
	defer service.Close()
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}

	server := &http.Server{
		Handler:           service,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second, // the form of a login is read before it is admitted
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	fmt.Fprintf(stdout, welcome, "http://"+listener.Addr().String(), atOnce(limits.Hello)+2, atOnce(limits.Login)+2)
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

// atOnce returns the number of requests that l admits at once.
func atOnce(l sash.Limit) int64 {
	if l.Algorithm == sash.TokenBucket {
		return l.Burst
	}
	return l.Count
}

const welcome = `Watch the windows slide:

  %[1]s/

Or try it from another shell. /hello is limited by address:

  for i in $(seq %[2]d); do curl -s -o /dev/null -w '%%{http_code} ' %[1]s/hello; done; curl -i %[1]s/hello

/quote by API key, demo-alice or demo-bob:

  curl -i -H 'X-API-Key: demo-alice' %[1]s/quote

/login by failures on each account from each address; alice's password is "sash":

  for i in $(seq %[3]d); do curl -s -o /dev/null -w '%%{http_code} ' -d account=alice -d password=wrong %[1]s/login; done
  curl -i -d account=alice -d password=sash %[1]s/login

To ask what is left of /hello and /quote, and be charged nothing:

  curl -I %[1]s/hello

`
