package httplimit_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// A modelClient is a connection to the server, and what was sent and received on it. It has no
// goroutine: the model tells it what to do next, and so it can stop at any byte.
type modelClient struct {
	*modelConn
	http2    bool
	sent     []*exchange // in the order in which they were begun
	unsent   []byte      // the rest of a request that was sent in part
	received []byte
	gone     bool // closed or reset
	ended    bool // half-closed, or gone
	data     map[uint32]int64
	frames   int // bytes of received that were read as frames
}

// streamWindow is how many bytes of each response the client of HTTP/2 lets the server send unasked.
// It is small for a slow client.
func newModelClient(conn *modelConn, http2 bool, streamWindow uint32) *modelClient {
	c := &modelClient{modelConn: conn, http2: http2, data: map[uint32]int64{}}
	if http2 {
		b := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		const headerTableSize, initialWindowSize = 1, 4
		settings := binary.BigEndian.AppendUint16(nil, initialWindowSize)
		settings = binary.BigEndian.AppendUint32(settings, streamWindow)
		settings = binary.BigEndian.AppendUint16(settings, headerTableSize)
		settings = binary.BigEndian.AppendUint32(settings, 0)
		b = appendFrame(b, frameSettings, 0, 0, settings)
		b = appendFrame(b, frameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, 1<<24))
		_, _ = c.Write(b)
	}
	return c
}

// Types and flags of HTTP/2 frames, besides those that other tests have.
const (
	frameData         = 0x0
	frameWindowUpdate = 0x8
	flagEndStream     = 0x1
	flagEndHeaders    = 0x4
)

func appendFrame(b []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(b, payload...)
}

// appendField appends a header field as HPACK has it without any table or code.
func appendField(b []byte, name, value string) []byte {
	b = append(b, 0)
	for _, s := range []string{name, value} {
		if n := len(s); n < 127 {
			b = append(b, byte(n))
		} else {
			b = binary.AppendUvarint(append(b, 127), uint64(n-127))
		}
		b = append(b, s...)
	}
	return b
}

func (c *modelClient) String() string { return string(c.local.(modelAddr)) }

// encode returns x as it is sent. Its body is complete only if whole is true.
func (c *modelClient) encode(x *exchange, whole bool) []byte {
	body := make([]byte, x.body)
	if !whole {
		body = body[:x.body/2]
	}
	if !c.http2 {
		var b bytes.Buffer
		fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", x.method, x.target, x.host)
		for _, field := range x.fields {
			fmt.Fprintf(&b, "%s: %s\r\n", field[0], field[1])
		}
		if x.body > 0 {
			fmt.Fprintf(&b, "Content-Length: %d\r\n", x.body)
		}
		b.WriteString("\r\n")
		b.Write(body)
		return b.Bytes()
	}
	x.stream = uint32(2*len(c.sent) + 1)
	block := appendField(nil, ":method", x.method)
	block = appendField(block, ":scheme", "http")
	block = appendField(block, ":authority", x.host)
	block = appendField(block, ":path", x.target)
	for _, field := range x.fields {
		block = appendField(block, strings.ToLower(field[0]), field[1])
	}
	end := byte(flagEndStream)
	if x.body > 0 {
		end = 0
	}
	b := appendFrame(nil, frameHeaders, flagEndHeaders|end, x.stream, block)
	if x.body > 0 {
		if end = flagEndStream; !whole {
			end = 0
		}
		b = appendFrame(b, frameData, end, x.stream, body)
	}
	return b
}

// send sends x, or only its first bytes.
func (c *modelClient) send(x *exchange, part float64) {
	b := c.encode(x, true)
	c.sent = append(c.sent, x)
	x.client = c
	n := len(b)
	if part < 1 {
		n = int(part * float64(n))
	}
	c.unsent = b[n:]
	_, _ = c.Write(b[:n])
}

// sendRest sends the rest of a request.
func (c *modelClient) sendRest() {
	_, _ = c.Write(c.unsent)
	c.unsent = nil
}

// allow lets the server send n bytes more, of x if the streams have windows of their own.
func (c *modelClient) allow(x *exchange, n int) {
	if c.http2 {
		_, _ = c.Write(appendFrame(nil, frameWindowUpdate, 0, x.stream, binary.BigEndian.AppendUint32(nil, uint32(n))))
		return
	}
	c.in.set(func() { c.in.room += n })
}

// resetStream cancels x.
func (c *modelClient) resetStream(x *exchange) {
	const cancel = 8
	x.reset = true
	_, _ = c.Write(appendFrame(nil, frameRSTStream, 0, x.stream, binary.BigEndian.AppendUint32(nil, cancel)))
}

// receive takes what the server has sent.
func (c *modelClient) receive() {
	c.received = append(c.received, c.in.take()...)
	for c.http2 {
		rest := c.received[c.frames:]
		if len(rest) < 9 {
			return
		}
		n := int(rest[0])<<16 | int(rest[1])<<8 | int(rest[2])
		if len(rest) < 9+n {
			return
		}
		if rest[3] == frameData {
			c.data[binary.BigEndian.Uint32(rest[5:])] += int64(n)
		}
		c.frames += 9 + n
	}
}

// A reply is what the client knows of an answer.
type reply struct {
	exchange *exchange
	response *http.Response // nil over HTTP/2
	body     []byte         // as much as has come; nil over HTTP/2
	bytes    int64          // of the body
}

// replies returns what the client has received of each answer.
func (c *modelClient) replies() (all []reply) {
	if c.http2 {
		for _, x := range c.sent {
			all = append(all, reply{exchange: x, bytes: c.data[x.stream]})
		}
		return all
	}
	from := bufio.NewReader(bytes.NewReader(c.received))
	for _, x := range c.sent {
		response, err := http.ReadResponse(from, &http.Request{Method: x.method})
		for err == nil && response.StatusCode < 200 && response.StatusCode != http.StatusSwitchingProtocols {
			response, err = http.ReadResponse(from, &http.Request{Method: x.method})
		}
		if err != nil {
			return all // nothing, or not all of the head, has come
		}
		body, err := io.ReadAll(response.Body)
		all = append(all, reply{x, response, body, int64(len(body))})
		if err != nil || x.did.hijacked {
			return all
		}
	}
	return all
}
