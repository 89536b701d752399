// Command recording makes the access log that the documentation demonstrates limits on: one
// day of a shop that does not exist. It has ordinary clients, an office behind one address, a
// crawler, a script that goes wild for a minute, and an attack on passwords. Anyone can make it
// again: the same lines come out on every machine.
//
//	go run ./cmd/sash/internal/recording >cmd/sash/testdata/shop.log.gz
//
// It is in Combined Log Format. The addresses are those that are reserved for documentation
// and for benchmarks.
package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

// write writes the log to w, compressed.
func write(w io.Writer) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	for _, line := range newShop().day() {
		if _, err := fmt.Fprintln(z, line); err != nil {
			return err
		}
	}
	return z.Close()
}
