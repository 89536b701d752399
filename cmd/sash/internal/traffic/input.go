package traffic

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/progress"
)

// StandardInput is the name that stands for standard input.
const StandardInput = "-"

// MaxLine is the length of the longest line that is read, in bytes. It is more than twice
// the length of the longest request with headers that a server accepts, with every byte
// escaped.
const MaxLine = 256 << 10

// Read returns the events of files in the order of time. "-" stands for stdin. A file that
// breaks off is read as far as possible.
func Read(ctx context.Context, files []string, stdin io.Reader, key Key, c Columns, p progress.Drawer) (*Traffic, error) {
	size, err := CheckFiles(files)
	if err != nil {
		return nil, err
	}
	in := inputs{stdin, p.Bytes(size, "reading")}
	defer in.bar.End()
	t := newTraffic(key, c)
	for _, name := range files {
		if err := in.read(ctx, t, name); err != nil {
			return nil, err
		}
	}
	t.sort()
	return t, nil
}

// inputs opens files.
type inputs struct {
	stdin io.Reader
	bar   progress.Bar
}

// CheckFiles returns an error that names every file that is missing or a directory. Otherwise
// it returns the total size, or -1 if the size of a file is not known.
func CheckFiles(names []string) (size int64, err error) {
	var faults []error
	for _, name := range names {
		if name == StandardInput {
			size = -1
			continue
		}
		switch info, err := os.Stat(name); {
		case err != nil:
			faults = append(faults, err)
		case info.IsDir():
			faults = append(faults, fmt.Errorf("%s is a directory", name))
		case !info.Mode().IsRegular():
			size = -1
		case size >= 0:
			size += info.Size()
		}
	}
	return size, errors.Join(faults...)
}

// read adds the lines of a file to t. If the file breaks off, t records that.
func (in *inputs) read(ctx context.Context, t *Traffic, name string) error {
	raw := io.NopCloser(in.stdin)
	if name != StandardInput {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		raw = f
	}
	defer raw.Close()
	piped := interruptible(ctx, io.TeeReader(raw, in.bar))
	defer piped.Close()
	s := t.source(name)
	r, err := plainText(piped)
	if err != nil {
		s.breakOff(err)
		return ctx.Err()
	}
	return errors.Join(s.readLines(r), ctx.Err())
}

// interruptible returns a reader of the content of r that fails once ctx is done. A
// goroutine of its own reads r, so that an interrupt has an effect while r blocks.
func interruptible(ctx context.Context, r io.Reader) io.ReadCloser {
	pr, pw := io.Pipe()
	stop := context.AfterFunc(ctx, func() { pw.CloseWithError(ctx.Err()) })
	go func() {
		defer stop()
		_, err := io.Copy(pw, r)
		pw.CloseWithError(err)
	}()
	return pr
}

// plainText returns a reader of the content of r, decompressed if it is gzip.
func plainText(r io.Reader) (*bufio.Reader, error) {
	buffered := bufio.NewReaderSize(r, MaxLine)
	if magic, _ := buffered.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return buffered, nil
	}
	z, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(z, MaxLine), nil
}

// readLines takes every line of r. The buffer of r must hold MaxLine bytes.
func (s *source) readLines(r *bufio.Reader) error {
	for {
		line, err := r.ReadSlice('\n')
		switch {
		case err == nil || err == io.EOF && len(line) > 0:
			if err := s.take(string(bytes.TrimRight(line, "\r\n"))); err != nil {
				return err
			}
		case err == bufio.ErrBufferFull:
			s.takeUnread(fmt.Sprintf("longer than %d bytes", MaxLine), string(line[:1024]))
			err = skipLine(r)
		case err != io.EOF && len(line) > 0:
			// The line may be cut anywhere, even in a client's name, so it is no event.
			s.takeUnread("the file breaks off in it", string(line))
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			s.breakOff(err)
			return nil
		}
	}
}

// skipLine reads to the end of a line.
func skipLine(r *bufio.Reader) error {
	for {
		if _, err := r.ReadSlice('\n'); err != bufio.ErrBufferFull {
			return err
		}
	}
}
