package main

import (
	"context"
	"net"
	"sync/atomic"
)

// A wire counts what clients send to a server and receive from it. A write is a packet, which
// may hold several commands.
type wire struct {
	socket                        string
	writes, reads, sent, received atomic.Int64
}

// A flow is the counts of a wire.
type flow struct{ writes, reads, sent, received float64 }

func (w *wire) flow() flow {
	return flow{float64(w.writes.Load()), float64(w.reads.Load()), float64(w.sent.Load()), float64(w.received.Load())}
}

// since returns what was counted after before.
func (f flow) since(before flow) flow {
	return flow{f.writes - before.writes, f.reads - before.reads, f.sent - before.sent, f.received - before.received}
}

// dial connects to the server.
func (w *wire) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", w.socket)
	if err != nil {
		return nil, err
	}
	return &countedConn{conn.(*net.UnixConn), w}, nil
}

// A countedConn is a connection whose traffic a wire counts. Clients find in it all other methods
// of a connection, such as those by which go-redis looks whether it is still up.
type countedConn struct {
	*net.UnixConn
	wire *wire
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.UnixConn.Read(b)
	c.wire.reads.Add(1)
	c.wire.received.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.UnixConn.Write(b)
	c.wire.writes.Add(1)
	c.wire.sent.Add(int64(n))
	return n, err
}
