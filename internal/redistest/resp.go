package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// network returns the network of an address: a path names a unix socket.
func network(addr string) string {
	if strings.HasPrefix(addr, "/") {
		return "unix"
	}
	return "tcp"
}

// dial connects to addr until ctx is done.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network(addr), addr)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// command sends a command to the server at addr on a connection of its own, and returns the
// reply: a string, an int64, nil, or a []any of these. An error of the server is an error.
func command(ctx context.Context, addr string, args ...string) (any, error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := conn.Write(encode(args)); err != nil {
		return nil, err
	}
	raw, err := readValue(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	reply, _, err := decode(string(raw))
	return reply, err
}

// encode returns args as a client sends them.
func encode(args []string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

// readValue appends one value, as it is on the wire, to b.
func readValue(r *bufio.Reader, b []byte) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return b, err
	}
	b = append(b, line...)
	if len(line) < 3 {
		return b, fmt.Errorf("redistest: no RESP: %q", line)
	}
	switch kind := line[0]; kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return b, nil
	case '$', '=', '!', '*', '~', '>', '%', '|':
		n, err := strconv.Atoi(string(line[1 : len(line)-2]))
		if err != nil {
			return b, fmt.Errorf("redistest: no RESP: %q", line)
		}
		switch kind {
		case '$', '=', '!':
			if n < 0 {
				return b, nil
			}
			from := len(b)
			b = append(b, make([]byte, n+2)...)
			_, err := io.ReadFull(r, b[from:])
			return b, err
		case '%':
			n *= 2
		case '|':
			n = 2*n + 1 // the value that has these attributes follows
		}
		for range n {
			if b, err = readValue(r, b); err != nil {
				return b, err
			}
		}
		return b, nil
	}
	return b, fmt.Errorf("redistest: no RESP: %q", line)
}

// decode returns the first value of raw, which is of RESP 2 and complete, and the rest.
func decode(raw string) (value any, rest string, err error) {
	line, rest, _ := strings.Cut(raw, "\r\n")
	switch text := line[1:]; line[0] {
	case '+':
		return text, rest, nil
	case '-':
		return nil, rest, errors.New(text)
	case ':':
		n, err := strconv.ParseInt(text, 10, 64)
		return n, rest, err
	case '$':
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, rest, err
		}
		return rest[:n], rest[n+2:], nil
	case '*':
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, rest, err
		}
		values := make([]any, n)
		for i := range values {
			if values[i], rest, err = decode(rest); err != nil {
				return nil, rest, err
			}
		}
		return values, rest, nil
	}
	return nil, "", fmt.Errorf("redistest: no RESP 2: %q", line)
}
