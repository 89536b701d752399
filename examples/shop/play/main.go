// Command play sends the requests of an access log again, to another server and at a multiple of their pace. To
// that server it is a load balancer: all requests come from its address, and X-Forwarded-For names the clients.
//
//	go run ./examples/shop/play -from 21:20 -to 21:45 -speed 300 shop.log.gz
//
// The log is in Combined Log Format, and compressed by gzip. A POST is a login, and has the right password if the
// login has succeeded in the log. At the end, play prints how many answers of each status there were.
package main

import (
	"bufio"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("play: ")
	server := flag.String("server", "127.0.0.1:8080", "`address` that the requests are sent to")
	from := flag.String("from", "00:00", "`time` of day of the first request")
	to := flag.String("to", "24:00", "`time` of day that the last request comes before")
	speed := flag.Float64("speed", 1, "`times` as fast as recorded")
	flag.Parse()
	if flag.NArg() != 1 || *speed <= 0 {
		log.Fatal("give it one log, and a speed above 0")
	}
	requests, err := read(flag.Arg(0), *from, *to)
	if err != nil {
		log.Fatal(err)
	}
	begin := time.Now()
	answers, err := play(requests, *server, *speed)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d requests in %.0f s\n", len(requests), time.Since(begin).Seconds())
	for _, status := range slices.Sorted(maps.Keys(answers)) {
		fmt.Printf("%6d  %d %s\n", answers[status], status, http.StatusText(status))
	}
}

// A request is a line of the log.
type request struct {
	at                           time.Time
	client, method, path, status string
}

var combined = regexp.MustCompile(`^(\S+) \S+ \S+ \[(.*?)\] "(\S+) (\S+) [^"]*" (\d+) `)

// read returns the requests of a log between two times of day.
func read(name, from, to string) (requests []request, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		m := combined.FindStringSubmatch(lines.Text())
		if m == nil {
			return nil, fmt.Errorf("%s is not in Combined Log Format: %s", name, lines.Text())
		}
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[2])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if clock := at.Format("15:04"); from <= clock && clock < to {
			requests = append(requests, request{at, m[1], m[3], m[4], m[5]})
		}
	}
	return requests, lines.Err()
}

// play sends requests to a server, and returns how many answers of each status there were.
func play(requests []request, server string, speed float64) (answers map[int]int, err error) {
	const atOnce = 32
	client := &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: atOnce},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       time.Minute,
	}
	var mu sync.Mutex // guards answers and err
	answers = make(map[int]int)
	due := make(chan request)
	var senders sync.WaitGroup
	for range atOnce {
		senders.Go(func() {
			for r := range due {
				status, fault := r.send(client, server)
				mu.Lock()
				answers[status]++
				if fault != nil {
					err = fault
				}
				mu.Unlock()
			}
		})
	}
	begin := time.Now()
	for _, r := range requests {
		offset := float64(r.at.Sub(requests[0].at)) / speed
		time.Sleep(time.Until(begin.Add(time.Duration(offset))))
		due <- r
	}
	close(due)
	senders.Wait()
	return answers, err
}

// send sends the request for its client, and returns the status of the answer.
func (r request) send(client *http.Client, server string) (status int, err error) {
	var body io.Reader
	if r.method == http.MethodPost {
		password := map[bool]string{true: "sesame", false: "guess"}[r.status < "400"]
		body = strings.NewReader(url.Values{"password": {password}}.Encode())
	}
	sent, err := http.NewRequest(r.method, "http://"+server+r.path, body)
	if err != nil {
		return 0, err
	}
	sent.Header.Set("X-Forwarded-For", r.client)
	if body != nil {
		sent.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := client.Do(sent)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}
