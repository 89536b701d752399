package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/clientmodel"
)

// A Transport, in http.Clients and by itself, against servers of net/http.
func TestModel_Clients(t *testing.T) { clientmodel.Test(t, httpProtocol, 1000) }

func TestModel_ObedientClientsAreNotSlower(t *testing.T) {
	clientmodel.TestThroughput(t, httpProtocol, 100)
}

// How a call is made.
const (
	http1 = iota
	http2
	admits // by Admit or Reserve, and Obey, without a client
)

// What a request sends, and whether the client reads the answer.
const (
	get          = iota
	post         // a body that can be sent again
	postOnce     // one that cannot
	sendingKinds // and as many whose answers are not read
)

var httpProtocol = &clientmodel.Protocol{
	HTTP:  true,
	Kinds: []string{"HTTP/1.1", "HTTP/2", "Admit"},
	Classes: []clientmodel.Class{clientmodel.OK, clientmodel.OK, clientmodel.OK, clientmodel.Failed, clientmodel.Exhausted,
		clientmodel.Exhausted, clientmodel.Unavailable, clientmodel.Broken, clientmodel.Redirect},
	Bodies:  2 * sendingKinds,
	Follows: func(c *clientmodel.Call) bool { return c.Kind != admits && c.Body%sendingKinds != postOnce },
	Path:    func(_, method int) string { return "/m" + strconv.Itoa(method) },
	Open:    openHTTP,
}

// A httpSession is a server, and clients that share a Transport.
type httpSession struct {
	world    *clientmodel.World
	server   *http.Server
	listener *clientmodel.Listener
	bases    [2]*http.Transport
}

func openHTTP(w *clientmodel.World) clientmodel.Session {
	s := &httpSession{world: w, listener: clientmodel.Listen()}
	s.server = &http.Server{Handler: http.HandlerFunc(s.serve), Protocols: new(http.Protocols)}
	s.server.Protocols.SetHTTP1(true)
	s.server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.server.Serve(s.listener) }()
	for kind := range s.bases {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(kind == http1)
		protocols.SetUnencryptedHTTP2(kind == http2)
		s.bases[kind] = &http.Transport{DialContext: s.listener.Dial, Protocols: protocols}
	}
	w.Transport.Base = s
	return s
}

// RoundTrip sends a request by the protocol of its kind.
func (s *httpSession) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Kind") == strconv.Itoa(http2) {
		return s.bases[http2].RoundTrip(r)
	}
	return s.bases[http1].RoundTrip(r)
}

func (s *httpSession) CloseIdleConnections() {
	for _, base := range s.bases {
		base.CloseIdleConnections()
	}
}

func (s *httpSession) Close() {
	(&http.Client{Transport: s.world.Transport}).CloseIdleConnections()
	_ = s.server.Close()
}

func (s *httpSession) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client goes
	answer, err := s.world.Arrive(r.Context(), r.Header.Get(clientmodel.CallHeader))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, &answer) })
	if s.world.Limited(r.Host) {
		handler = s.world.Limiter.Middleware(handler)
	}
	handler.ServeHTTP(w, r)
}

var statuses = map[clientmodel.Class]int{
	clientmodel.OK: 200, clientmodel.Failed: 500, clientmodel.Exhausted: 429, clientmodel.Unavailable: 503, clientmodel.Redirect: 307,
}

func (s *httpSession) answer(w http.ResponseWriter, r *http.Request, a *clientmodel.Answer) {
	switch a.Class {
	case clientmodel.Broken:
		panic(http.ErrAbortHandler)
	case clientmodel.Redirect:
		w.Header().Set("Location", "http://"+s.world.Hosts[a.To]+r.URL.Path)
	}
	for name, told := range map[string]clientmodel.Told{"Retry-After": a.RetryAfter, "RateLimit": a.RateLimit} {
		if told.Present() {
			w.Header().Add(name, told.Value())
		}
	}
	w.WriteHeader(statuses[a.Class])
	_, _ = io.WriteString(w, "an answer")
}

func (s *httpSession) Do(ctx context.Context, c *clientmodel.Call) clientmodel.Reply {
	method, body := http.MethodPost, io.Reader(nil)
	switch c.Body % sendingKinds {
	case get:
		method = http.MethodGet
	case post:
		body = strings.NewReader("a question")
	case postOnce:
		body = io.MultiReader(strings.NewReader("a question"))
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.world.Hosts[c.Host]+httpProtocol.Path(c.Kind, c.Method), body)
	if err != nil {
		return clientmodel.Reply{Note: err.Error()}
	}
	clientmodel.SetHeaders(c, r.Header.Set)
	r.Header.Set("X-Kind", strconv.Itoa(c.Kind))
	response, err := s.send(r, c.Kind)
	if err != nil {
		return httpReply(err, c)
	}
	if c.Body < sendingKinds {
		_, err = io.Copy(io.Discard, response.Body)
	}
	reply := clientmodel.Reply{Note: errorText(errors.Join(err, response.Body.Close()))}
	for class, status := range statuses {
		if status == response.StatusCode {
			reply.Class = class
		}
	}
	if response.StatusCode >= 400 {
		reply.Wait = clientmodel.Seconds(response.Header.Get("Retry-After"))
	}
	return reply
}

func (s *httpSession) send(r *http.Request, kind int) (*http.Response, error) {
	if kind != admits {
		return (&http.Client{Transport: s.world.Transport}).Do(r)
	}
	key, release, err := s.admit(r)
	if err != nil {
		return nil, err
	}
	response, err := s.RoundTrip(r)
	if err != nil {
		release()
		return nil, err
	}
	s.world.Transport.Obey(key, response)
	response.Body = &releasing{response.Body, release}
	return response, nil
}

// admit asks the Transport by Admit or, if units are held, by Reserve.
func (s *httpSession) admit(r *http.Request) (key string, release func(), err error) {
	if s.world.HoldsUnits {
		return s.world.Transport.Reserve(r)
	}
	key, err = s.world.Transport.Admit(r)
	return key, func() {}, err
}

// A releasing body calls release once it is closed.
type releasing struct {
	io.ReadCloser
	release func()
}

func (b *releasing) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// httpReply returns what the error of a call says.
func httpReply(err error, c *clientmodel.Call) clientmodel.Reply {
	if reply, ok := clientmodel.UnsentBy(err); ok {
		return reply
	}
	if !strings.Contains(err.Error(), "httplimit: ") && c.Answer.Class == clientmodel.Broken {
		return clientmodel.Reply{Class: clientmodel.Broken}
	}
	reply := clientmodel.Reply{Kind: clientmodel.Unsent}
	if !strings.Contains(err.Error(), "httplimit: ") {
		reply.Note = err.Error()
	}
	return reply
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// All options and calls of a Transport are in the model.
func TestModel_ClientsCrossAllOptionsAndCalls(t *testing.T) {
	transport := reflect.TypeFor[httplimit.Transport]()
	for i := range transport.NumField() {
		if f := transport.Field(i); f.IsExported() {
			require.Contains(t, clientmodel.Options, f.Name)
			_, ok := reflect.TypeFor[clientmodel.Settings]().FieldByName(clientmodel.Options[f.Name])
			require.True(t, ok, f.Name)
		}
	}
	calls := map[string]string{
		"RoundTrip": "of HTTP/1.1 and HTTP/2", "CloseIdleConnections": "when a session ends",
		"Admit": "of Admit, and of the interceptors", "Obey": "of Admit, and of the interceptors", "HoldBack": "of the interceptors",
		"Reserve": "of Admit, and of the interceptors",
	}
	for i := range reflect.PointerTo(transport).NumMethod() {
		require.Contains(t, calls, reflect.PointerTo(transport).Method(i).Name)
	}
}
