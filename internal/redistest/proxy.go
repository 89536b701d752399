package redistest

import (
	"bufio"
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Fault is what a [Proxy] does to a request.
type Fault int

const (
	// Forward passes the request and its reply on.
	Forward Fault = iota
	// CutBefore closes the connection instead of passing the request on.
	CutBefore
	// CutAfter passes the request on, waits for the reply, and closes the connection instead of
	// passing the reply on.
	CutAfter
	// StallBefore passes neither the request on nor anything after it, in both directions. The
	// connection stays open.
	StallBefore
	// StallAfter passes the request on, waits for the reply, and passes neither that on nor
	// anything after it, in both directions. The connection stays open.
	StallAfter
)

// A Proxy passes commands and replies between clients and a server, counts them, and disturbs
// them. Its methods are safe for concurrent use.
type Proxy struct {
	addr     string
	upstream string
	listener net.Listener
	ended    context.Context
	wg       sync.WaitGroup

	fault atomic.Pointer[func(args []string) Fault]
	delay atomic.Int64 // in each direction, in ns

	mu    sync.Mutex
	conns map[net.Conn]bool // of both sides, open

	connections, requests, replies, sent, received atomic.Int64
}

// Counts are what a [Proxy] has seen.
type Counts struct {
	Connections int64 // of clients
	Requests    int64 // commands that clients sent, with the commands of handshakes
	Replies     int64 // to them that the server sent
	Sent        int64 // bytes of requests
	Received    int64 // bytes of replies, and of what servers send unasked
}

// StartProxy starts a proxy, on a unix socket, of the server at addr. It ends with the test.
func StartProxy(t testing.TB, addr string) *Proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "sash") // not t.TempDir, whose paths may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{addr: filepath.Join(dir, "s"), upstream: addr, ended: ctx, conns: map[net.Conn]bool{}}
	if p.listener, err = net.Listen("unix", p.addr); err != nil {
		t.Fatal(err)
	}
	p.wg.Add(1)
	go p.accept()
	t.Cleanup(func() {
		cancel()
		p.listener.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Addr returns the path of the proxy's socket.
func (p *Proxy) Addr() string { return p.addr }

// Network returns "unix".
func (p *Proxy) Network() string { return network(p.addr) }

// OnRequest sets what becomes of requests: fault is called with the arguments of each, in their
// order on a connection, at once by several goroutines if there are several connections. Nil
// means that all are forwarded.
func (p *Proxy) OnRequest(fault func(args []string) Fault) {
	if fault == nil {
		p.fault.Store(nil)
		return
	}
	p.fault.Store(&fault)
}

// SetDelay sets how long each request and each reply is under way. Requests on one connection
// are under way at once, as in a network.
func (p *Proxy) SetDelay(d time.Duration) { p.delay.Store(int64(d)) }

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Counts returns what the proxy has seen since it was started.
func (p *Proxy) Counts() Counts {
	return Counts{p.connections.Load(), p.requests.Load(), p.replies.Load(), p.sent.Load(), p.received.Load()}
}

// Sub returns the difference to d, the earlier count.
func (c Counts) Sub(d Counts) Counts {
	return Counts{c.Connections - d.Connections, c.Requests - d.Requests, c.Replies - d.Replies, c.Sent - d.Sent, c.Received - d.Received}
}

// accept serves clients until the proxy ends.
func (p *Proxy) accept() {
	defer p.wg.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.connections.Add(1)
		p.wg.Add(1)
		go p.serve(client)
	}
}

// track adds a connection to those that Cut closes, and returns a function that closes it and
// removes it.
func (p *Proxy) track(c net.Conn) (untrack func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
	if p.ended.Err() != nil { // Cut has been called for the last time
		c.Close()
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
		c.Close()
	}
}

// A packet is a value on its way.
type packet struct {
	raw []byte
	due time.Time
	cut bool // the connections are closed instead
}

// A link is the two connections of one client.
type link struct {
	*Proxy
	client, server net.Conn
	stalled        chan struct{} // closed once nothing is passed on any more
	stall          func()        // closes stalled

	mu     sync.Mutex
	faults []Fault // of the requests that are passed on and not yet replied to
}

// serve passes on what client and the server say, until one of them is gone.
func (p *Proxy) serve(client net.Conn) {
	defer p.wg.Done()
	defer p.track(client)()
	server, err := dial(p.ended, p.upstream)
	if err != nil {
		return
	}
	defer p.track(server)()
	l := &link{Proxy: p, client: client, server: server, stalled: make(chan struct{})}
	l.stall = sync.OnceFunc(func() { close(l.stalled) })

	var wg sync.WaitGroup
	up, down := make(chan packet, 1<<10), make(chan packet, 1<<10)
	wg.Go(func() { l.readRequests(up) })
	wg.Go(func() { l.readReplies(down) })
	wg.Go(func() { l.write(server, up) })
	wg.Go(func() { l.write(client, down) })
	wg.Wait()
}

// close ends all goroutines of l.
func (l *link) close() {
	l.client.Close()
	l.server.Close()
}

// packet returns a packet that leaves now.
func (l *link) packet(raw []byte) packet {
	return packet{raw: raw, due: time.Now().Add(time.Duration(l.delay.Load()))}
}

// readRequests puts what the client sends into up, and decides what becomes of it.
func (l *link) readRequests(up chan<- packet) {
	defer close(up)
	r := bufio.NewReader(l.client)
	for {
		raw, err := readValue(r, nil)
		if err != nil {
			// The client is gone. Requests that it has sent before are passed on.
			up <- packet{due: time.Now(), cut: true}
			return
		}
		l.requests.Add(1)
		l.sent.Add(int64(len(raw)))
		fault := Forward
		if f := l.fault.Load(); f != nil {
			fault = (*f)(arguments(raw))
		}
		switch fault {
		case CutBefore:
			up <- packet{due: time.Now(), cut: true}
			return
		case StallBefore:
			l.stall()
		}
		l.mu.Lock()
		l.faults = append(l.faults, fault)
		l.mu.Unlock()
		up <- l.packet(raw)
	}
}

// readReplies puts what the server sends into down, except replies that are to be lost.
func (l *link) readReplies(down chan<- packet) {
	defer close(down)
	r := bufio.NewReader(l.server)
	for {
		raw, err := readValue(r, nil)
		if err != nil {
			down <- packet{due: time.Now(), cut: true}
			return
		}
		l.received.Add(int64(len(raw)))
		if raw[0] != '>' { // which is sent unasked
			l.replies.Add(1)
			switch l.replied() {
			case CutAfter:
				down <- packet{due: time.Now(), cut: true}
				return
			case StallAfter:
				l.stall()
			}
		}
		down <- l.packet(raw)
	}
}

// replied returns the fault of the request that the next reply answers.
func (l *link) replied() Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.faults) == 0 {
		return Forward
	}
	fault := l.faults[0]
	l.faults = l.faults[1:]
	return fault
}

// write writes packets to c once they are due, unless the link is stalled.
func (l *link) write(c net.Conn, packets <-chan packet) {
	for p := range packets {
		if wait := time.Until(p.due); wait > 0 {
			time.Sleep(wait)
		}
		select {
		case <-l.stalled:
			if p.cut { // a side is gone
				l.close()
			}
			continue
		default:
		}
		if p.cut {
			l.close()
			continue
		}
		if _, err := c.Write(p.raw); err != nil {
			l.close()
		}
	}
}

// arguments returns the arguments of a command on the wire.
func arguments(raw []byte) []string {
	value, _, err := decode(string(raw))
	values, ok := value.([]any)
	if err != nil || !ok {
		return nil
	}
	args := make([]string, len(values))
	for i, v := range values {
		args[i], _ = v.(string)
	}
	return args
}
