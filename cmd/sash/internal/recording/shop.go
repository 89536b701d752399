package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// A shop records its requests. It uses whole numbers only, which are alike on all machines.
type shop struct {
	random   *rand.Rand
	requests []request
}

// A request is one line of the log.
type request struct {
	at             int // seconds since midnight
	address        netip.Addr
	method, path   string
	status, size   int
	referer, agent string
}

// A visitor is who sends requests.
type visitor struct {
	address netip.Addr
	agent   string
}

func newShop() *shop { return &shop{random: rand.New(rand.NewPCG(2026, 3))} }

// Those that a limit may concern have addresses of their own.
var (
	office    = netip.MustParseAddr("203.0.113.10") // of many people
	crawler   = netip.MustParseAddr("192.0.2.80")
	script    = netip.MustParseAddr("198.51.100.23")
	attackers = []netip.Addr{netip.MustParseAddr("203.0.113.66"), netip.MustParseAddr("203.0.113.67"), netip.MustParseAddr("203.0.113.68")}
)

const (
	households = 3600 // ordinary clients
	colleagues = 45   // people in the office
	hour       = 3600
	minute     = 60
)

// midnight is when the day begins, a Tuesday.
var midnight = time.Date(2026, time.March, 10, 0, 0, 0, 0, time.UTC)

// day returns the lines of the log.
func (s *shop) day() (lines []string) {
	for i := range households {
		s.household(i)
	}
	s.office()
	s.crawl()
	s.retry()
	s.attack()
	slices.SortStableFunc(s.requests, func(a, b request) int { return cmp.Compare(a.at, b.at) })
	for _, r := range s.requests {
		if r.at < 24*hour {
			lines = append(lines, r.String())
		}
	}
	return lines
}

// String returns a line in Combined Log Format.
func (r request) String() string {
	at := midnight.Add(time.Duration(r.at) * time.Second)
	return fmt.Sprintf(`%s - - [%s] "%s %s HTTP/1.1" %d %d "%s" "%s"`, r.address, at.Format("02/Jan/2006:15:04:05 -0700"),
		r.method, r.path, r.status, r.size, r.referer, r.agent)
}

// household makes the visits of one ordinary client.
func (s *shop) household(i int) {
	address := netip.AddrFrom4([4]byte{198, 18 + byte(i>>11&1), byte(i >> 3), byte(1 + s.random.IntN(254))})
	v := visitor{address, pick(s.random, browsers)}
	for range 1 + s.again(4, 3) {
		s.visit(v, s.daytime())
	}
}

// again returns how many times a visitor does something once more, at most most: each time, one
// visitor in n goes on.
func (s *shop) again(n, most int) (times int) {
	for times < most && s.random.IntN(n) == 0 {
		times++
	}
	return times
}

// daytime returns a time of day. Nights are quiet, and evenings are busy.
func (s *shop) daytime() int {
	byHour := [24]int{3, 2, 1, 1, 1, 2, 5, 9, 12, 14, 15, 16, 18, 16, 15, 15, 16, 18, 21, 24, 26, 22, 14, 7}
	total := 0
	for _, n := range byHour {
		total += n
	}
	at := s.random.IntN(total)
	for h, n := range byHour {
		if at < n {
			return h*hour + s.random.IntN(hour)
		}
		at -= n
	}
	return 0
}

// visit makes the requests of a person: a few pages, some time on each, and now and then a
// login.
func (s *shop) visit(v visitor, at int) {
	page := "/"
	s.get(v, at, page, "-")
	for range s.random.IntN(3) {
		s.get(v, at+s.random.IntN(2), pick(s.random, assets), "https://shop.example/")
	}
	for range 1 + s.again(2, 12) {
		at += 3 + s.random.IntN(20)*s.random.IntN(8)
		next := pick(s.random, pages)
		if next == "/products/" {
			next += fmt.Sprint(1 + s.random.IntN(400))
		}
		s.get(v, at, next, "https://shop.example"+page)
		page = next
	}
	if s.random.IntN(8) == 0 {
		s.login(v, at+5+s.random.IntN(30))
	}
}

// login makes the attempts of a person to log in, of whom some mistype the password.
func (s *shop) login(v visitor, at int) {
	s.get(v, at, "/login", "https://shop.example/")
	for range s.again(4, 4) {
		at += 6 + s.random.IntN(15)
		s.post(v, at, 401)
	}
	s.post(v, at+6+s.random.IntN(15), 303)
}

// office makes the visits of many people behind one address, in the hours of work.
func (s *shop) office() {
	for range colleagues {
		v := visitor{office, pick(s.random, browsers)}
		for range 3 + s.random.IntN(5) {
			s.visit(v, 8*hour+s.random.IntN(9*hour))
		}
	}
}

// crawl makes the requests of a crawler that fetches a page every other second for an hour.
func (s *shop) crawl() {
	v := visitor{crawler, "Mozilla/5.0 (compatible; ExampleBot/2.1; +https://bot.example/)"}
	for i := range 1500 {
		s.get(v, 3*hour+17*minute+2*i+s.random.IntN(2), fmt.Sprintf("/products/%d", 1+i%400), "-")
	}
}

// retry makes the requests of a script that repeats what fails, without a pause.
func (s *shop) retry() {
	v := visitor{script, "python-requests/2.32.3"}
	for i := range 600 {
		s.add(v, 14*hour+7*minute+i/20, "GET", "/api/stock", 503, 0, "-")
	}
}

// attack makes the requests of three machines that try passwords, one each second.
func (s *shop) attack() {
	for i, address := range attackers {
		v := visitor{address, "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"}
		for n := range 800 {
			s.post(v, 21*hour+30*minute+i*7+n+s.random.IntN(2), 401)
		}
	}
}

func (s *shop) get(v visitor, at int, path, referer string) {
	s.add(v, at, "GET", path, 200, 400+len(path)*97, referer)
}

func (s *shop) post(v visitor, at, status int) {
	s.add(v, at, "POST", "/login", status, 210, "https://shop.example/login")
}

func (s *shop) add(v visitor, at int, method, path string, status, size int, referer string) {
	s.requests = append(s.requests, request{at, v.address, method, path, status, size, referer, v.agent})
}

func pick(random *rand.Rand, from []string) string { return from[random.IntN(len(from))] }

var (
	pages    = []string{"/", "/products/", "/products/", "/products/", "/products/", "/search?q=lamp", "/search?q=chair", "/cart", "/about"}
	assets   = []string{"/static/shop.css", "/static/shop.js", "/static/logo.svg"}
	browsers = []string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/133.0.0.0 Safari/537.36",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.3 Safari/605.1.15",
		"Mozilla/5.0 (X11; Linux x86_64; rv:135.0) Gecko/20100101 Firefox/135.0",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_3 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.3 Mobile/15E148 Safari/604.1",
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/133.0.0.0 Mobile Safari/537.36",
	}
)
