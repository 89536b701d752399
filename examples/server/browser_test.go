package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A browser is a headless Chromium with one tab. The test controls it over a pipe by the
// DevTools protocol, which is JSON with a zero byte after each message, so it needs no
// library.
type browser struct {
	t       *testing.T
	in, out *os.File
	lines   *bufio.Reader
	session string // of the tab
	last    int    // id of the last command
	events  []event
}

// An event is a message of the browser that is not the result of a command.
type event struct {
	Method string
	Params json.RawMessage
}

const patience = 30 * time.Second // enough for a busy machine

// startBrowser returns nil, and logs that, if there is no browser.
func startBrowser(t *testing.T) *browser {
	path := findBrowser()
	if path == "" {
		t.Log("no Chromium is installed: the page is not tested")
		return nil
	}
	theirIn, in, err := os.Pipe()
	require.NoError(t, err)
	out, theirOut, err := os.Pipe()
	require.NoError(t, err)
	command := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	command.ExtraFiles = []*os.File{theirIn, theirOut} // file descriptors 3 and 4, as the protocol requires
	command.WaitDelay = patience
	require.NoError(t, command.Start())
	theirIn.Close()
	theirOut.Close()

	b := &browser{t: t, in: in, out: out, lines: bufio.NewReader(out)}
	t.Cleanup(func() {
		b.session = ""
		b.call("Browser.close", nil, nil)
		in.Close()
		_ = command.Wait() // the browser writes its profile until it ends
		out.Close()
	})
	b.openTab()
	return b
}

// findBrowser returns the path of a browser, or "" if there is none.
func findBrowser() string {
	if runtime.GOOS == "windows" {
		return "" // there, ExtraFiles does not work
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

func (b *browser) openTab() {
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
}

// call runs a command, and keeps the events that arrive before its result.
func (b *browser) call(method string, params map[string]any, result any) {
	b.t.Helper()
	b.last++
	command := map[string]any{"id": b.last, "method": method, "params": params}
	if params == nil {
		command["params"] = struct{}{}
	}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	text, err := json.Marshal(command)
	require.NoError(b.t, err)
	_, err = b.in.Write(append(text, 0))
	require.NoError(b.t, err)
	for {
		var answer struct {
			event
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		b.read(&answer)
		switch {
		case answer.ID == 0:
			b.events = append(b.events, answer.event)
		case answer.ID == b.last:
			require.Nil(b.t, answer.Error, "%s: %+v", method, answer.Error)
			if result != nil {
				require.NoError(b.t, json.Unmarshal(answer.Result, result))
			}
			return
		}
	}
}

func (b *browser) read(message any) {
	b.t.Helper()
	require.NoError(b.t, b.out.SetReadDeadline(time.Now().Add(2*patience)))
	text, err := b.lines.ReadBytes(0)
	require.NoError(b.t, err)
	require.NoError(b.t, json.Unmarshal(text[:len(text)-1], message))
}

// eval evaluates a JavaScript expression, awaits it if it is a promise, and stores the
// result in value.
func (b *browser) eval(expression string, value any) {
	b.t.Helper()
	var answer struct {
		Result struct{ Value json.RawMessage }
		Failed *struct{ Exception struct{ Description string } } `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true,
	}, &answer)
	require.Nil(b.t, answer.Failed, "%s: %+v", expression, answer.Failed)
	if value != nil {
		require.NoError(b.t, json.Unmarshal(answer.Result.Value, value))
	}
}

// await waits until a JavaScript expression is true.
func (b *browser) await(expression string) {
	b.t.Helper()
	var held bool
	b.eval(fmt.Sprintf(`new Promise((resolve) => {
		const end = performance.now() + %d;
		(function look() {
			const holds = Boolean(%s);
			if (holds || performance.now() > end) resolve(holds); else setTimeout(look, 10);
		})();
	})`, patience.Milliseconds(), expression), &held)
	if !held {
		var page string
		b.eval("document.body.innerText", &page)
		require.FailNow(b.t, "never held: "+expression, page)
	}
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.await(fmt.Sprintf("location.href === %q && document.readyState === 'complete'", url))
}

// click moves the mouse to the middle of an element and presses its left button.
func (b *browser) click(selector string) {
	b.t.Helper()
	var at struct{ X, Y float64 }
	b.eval(fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e.scrollIntoView({block: "center"});
		const r = e.getBoundingClientRect();
		return {x: r.x + r.width / 2, y: r.y + r.height / 2};
	})()`, selector), &at)
	for _, what := range []string{"mousePressed", "mouseReleased"} {
		b.call("Input.dispatchMouseEvent", map[string]any{
			"type": what, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1,
		}, nil)
	}
}

// press presses a key that has no character.
func (b *browser) press(key string, code int) {
	b.t.Helper()
	for _, what := range []string{"rawKeyDown", "keyUp"} {
		b.call("Input.dispatchKeyEvent", map[string]any{
			"type": what, "key": key, "code": key, "windowsVirtualKeyCode": code,
		}, nil)
	}
}

// resize sets the size of the window, or emulates a phone of that size.
func (b *browser) resize(width, height int, phone bool) {
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone,
	}, nil)
}

// scheme sets the preferred colour scheme: light or dark.
func (b *browser) scheme(name string) {
	b.call("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": name}},
	}, nil)
}

// screenshot returns the window, or all of the page, as a PNG.
func (b *browser) screenshot(all bool) []byte {
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": all}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(b.t, err)
	return picture
}
