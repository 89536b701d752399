package traffic

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// StandardInput is the name that stands for standard input.
const StandardInput = "-"

// MaxLine is the length of the longest line that is read, in bytes. It is more than twice
// the length of the longest request with headers that a server accepts, with every byte
// escaped.
const MaxLine = 256 << 10

// Files returns the files that the arguments of a command line name: standard input if there are none.
// The error names every wrong one.
func Files(args []string) (files []string, err error) {
	if len(args) == 0 {
		return []string{StandardInput}, nil
	}
	var faults []error
	inputs := 0
	for _, name := range args {
		switch {
		case name == StandardInput:
			inputs++
		case strings.HasPrefix(name, "-"):
			faults = append(faults, fmt.Errorf("%s comes after a FILE: flags stand before them; a file of that name is ./%s", name, name))
		}
	}
	if inputs > 1 {
		faults = append(faults, fmt.Errorf("standard input is named %d times, want once", inputs))
	}
	return args, errors.Join(faults...)
}

// CheckFiles returns an error that names every file that is missing, a directory, or named twice: by the same
// name, by another, or as standard input. Otherwise it returns the total size, or -1 if the size of a file is
// not known.
func CheckFiles(names []string, stdin io.Reader) (size int64, err error) {
	var faults []error
	seen := map[string]os.FileInfo{}
	for _, name := range names {
		info, err := stat(name, stdin)
		if other, twice := sameFile(seen, name, info); twice {
			faults = append(faults, twiceError(other, name))
			continue
		}
		seen[name] = info
		switch {
		case name == StandardInput:
			size = -1
		case err != nil:
			faults = append(faults, err)
		case info.IsDir():
			faults = append(faults, fmt.Errorf("%s is a directory", name))
		case !info.Mode().IsRegular():
			size = -1 // such as a pipe
		case size >= 0:
			size += info.Size()
		}
	}
	return size, errors.Join(faults...)
}

// stat returns what file a name stands for. Standard input may be a file, too, or none.
func stat(name string, stdin io.Reader) (os.FileInfo, error) {
	if name != StandardInput {
		return os.Stat(name)
	}
	if f, ok := stdin.(*os.File); ok {
		return f.Stat()
	}
	return nil, nil
}

// sameFile returns the name among those seen of the file that name stands for.
func sameFile(seen map[string]os.FileInfo, name string, info os.FileInfo) (other string, twice bool) {
	if _, twice := seen[name]; twice {
		return name, true
	}
	for other, was := range seen {
		if was != nil && info != nil && !info.IsDir() && os.SameFile(was, info) {
			return other, true
		}
	}
	return "", false
}

// twiceError says that a file is named twice: each of its requests would count twice.
func twiceError(a, b string) error {
	if a == b {
		return fmt.Errorf("%s is named twice: each of its requests would count twice", a)
	}
	return fmt.Errorf("%s and %s are the same file: each of its requests would count twice", a, b)
}

// start reads the file in a goroutine of its own, until ctx is done. The channel returned has
// room for as many events as a stream passes on at once, so that one side rarely waits for the
// other.
func (s *source) start(ctx context.Context, stdin io.Reader, bar io.Writer) <-chan batch {
	out := make(chan batch, 1+s.settings.room(s.files)/batchSize)
	go func() {
		defer close(out)
		s.send = func(b batch) bool {
			select {
			case out <- b:
				return true
			case <-ctx.Done(): // nothing receives any more
				return false
			}
		}
		if err := s.read(stdin, bar); err != nil {
			s.send(batch{err: err})
		}
	}()
	return out
}

// read reads the file. If it breaks off, s records that.
func (s *source) read(stdin io.Reader, bar io.Writer) error {
	raw := io.NopCloser(stdin)
	if s.file != StandardInput {
		f, err := os.Open(s.file)
		if err != nil {
			return err
		}
		raw = f
	}
	defer raw.Close()
	r, err := plainText(io.TeeReader(raw, bar))
	if err != nil {
		s.breakOff(err)
		return nil // the other files are read all the same
	}
	if err := s.readLines(r); err != nil {
		return err
	}
	return s.finish()
}

// compressions are the ways to compress a file that are read, or refused with the reason.
var compressions = []struct {
	magic string
	open  func(io.Reader) (io.Reader, error)
}{
	{"\x1f\x8b", func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"\x28\xb5\x2f\xfd", func(r io.Reader) (io.Reader, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
	}},
	{"BZh", func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
	{"\xfd7zXZ\x00", refuse("it is xz: decompress it first, by xz -dc")},
	{"PK\x03\x04", refuse("it is zip: decompress it first, by unzip -p")},
	{"\xff\xfe", refuse("it is UTF-16: convert it first, by iconv -f UTF-16 -t UTF-8")},
	{"\xfe\xff", refuse("it is UTF-16: convert it first, by iconv -f UTF-16 -t UTF-8")},
}

func refuse(why string) func(io.Reader) (io.Reader, error) {
	return func(io.Reader) (io.Reader, error) { return nil, errors.New(why) }
}

// plainText returns a reader of the content of r, decompressed if it is gzip, zstd or bzip2.
func plainText(r io.Reader) (*bufio.Reader, error) {
	buffered := bufio.NewReaderSize(r, MaxLine)
	for _, c := range compressions {
		if magic, _ := buffered.Peek(len(c.magic)); string(magic) == c.magic {
			z, err := c.open(buffered)
			if err != nil {
				return nil, err
			}
			return bufio.NewReaderSize(z, MaxLine), nil
		}
	}
	return buffered, nil
}

// readLines takes every line of r. The buffer of r must hold MaxLine bytes.
func (s *source) readLines(r *bufio.Reader) error {
	if mark, _ := r.Peek(3); string(mark) == "\ufeff" {
		r.Discard(len(mark)) // as some programs begin a file
	}
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
