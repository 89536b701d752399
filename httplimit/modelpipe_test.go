package httplimit_test

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A modelPipe is one direction of a connection in memory. It works in a bubble of testing/synctest,
// where a goroutine that waits for it is durably blocked.
type modelPipe struct {
	mu      sync.Mutex
	changed sync.Cond
	data    []byte
	room    int  // bytes that may still be written before the reader makes room
	ended   bool // the writer has ended it: what is left can be read
	reset   bool // the connection is gone
	closed  bool // the reader has closed it: nothing can be written
	readBy  time.Time
	writeBy time.Time
}

func newModelPipe(room int) *modelPipe {
	p := &modelPipe{room: room}
	p.changed.L = &p.mu
	return p
}

// set changes p under its lock, and wakes the goroutines that wait for it.
func (p *modelPipe) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

func (p *modelPipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.reset:
			return 0, syscall.ECONNRESET
		case p.closed:
			return 0, net.ErrClosed
		case passed(p.readBy):
			return 0, os.ErrDeadlineExceeded
		case len(p.data) > 0:
			n := copy(b, p.data)
			p.data = p.data[n:]
			return n, nil
		case p.ended:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

func (p *modelPipe) write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.reset:
			return n, syscall.ECONNRESET
		case p.closed, p.ended:
			return n, syscall.EPIPE
		case passed(p.writeBy):
			return n, os.ErrDeadlineExceeded
		}
		fits := min(len(b)-n, p.room)
		p.data = append(p.data, b[n:n+fits]...)
		p.room -= fits
		p.changed.Broadcast()
		if n += fits; n == len(b) {
			return n, nil
		}
		p.changed.Wait()
	}
}

// take removes what was written so far and returns it.
func (p *modelPipe) take() (data []byte) {
	p.set(func() { data, p.data = p.data, nil })
	return data
}

// expire sets the deadline of readers or writers, to which by points.
func (p *modelPipe) expire(by *time.Time, at time.Time) {
	p.set(func() {
		if *by = at; !at.IsZero() {
			time.AfterFunc(time.Until(at), func() { p.set(func() {}) })
		}
	})
}

// A modelConn is one end of a connection.
type modelConn struct {
	in, out      *modelPipe
	local, other net.Addr
}

// newModelConns returns the ends of a connection. The server can write room bytes before the client
// reads.
func newModelConns(client string, room int) (ofClient, ofServer *modelConn) {
	up, down := newModelPipe(1<<30), newModelPipe(room)
	here, there := modelAddr(client), modelAddr("198.51.100.1:80")
	return &modelConn{down, up, here, there}, &modelConn{up, down, there, here}
}

type modelAddr string

func (a modelAddr) Network() string { return "tcp" }
func (a modelAddr) String() string  { return string(a) }

func (c *modelConn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *modelConn) Write(b []byte) (int, error) { return c.out.write(b) }
func (c *modelConn) LocalAddr() net.Addr         { return c.local }
func (c *modelConn) RemoteAddr() net.Addr        { return c.other }

// CloseWrite ends the direction to the other end, as a FIN does.
func (c *modelConn) CloseWrite() error {
	c.out.set(func() { c.out.ended = true })
	return nil
}

func (c *modelConn) Close() error {
	c.in.set(func() { c.in.closed = true })
	return c.CloseWrite()
}

// Reset ends both directions at once, and loses what is under way.
func (c *modelConn) Reset() {
	for _, p := range []*modelPipe{c.in, c.out} {
		p.set(func() { p.reset, p.data = true, nil })
	}
}

func (c *modelConn) SetReadDeadline(at time.Time) error {
	c.in.expire(&c.in.readBy, at)
	return nil
}

func (c *modelConn) SetWriteDeadline(at time.Time) error {
	c.out.expire(&c.out.writeBy, at)
	return nil
}

func (c *modelConn) SetDeadline(at time.Time) error {
	_ = c.SetReadDeadline(at)
	return c.SetWriteDeadline(at)
}

// A modelListener hands out connections that are made in memory.
type modelListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newModelListener() *modelListener {
	return &modelListener{conns: make(chan net.Conn, 64), done: make(chan struct{})}
}

func (l *modelListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *modelListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *modelListener) Addr() net.Addr { return modelAddr("198.51.100.1:80") }
