//go:build !race

package daemon

// Compiling modules takes a minute under the race detector. tick_test.go and package relay test the
// concurrent parts under it.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	"github.com/spf13/pflag"

	"talon/host/config"
	"talon/host/plugin/plugintest"
	"talon/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

// built returns a folder with modules, whose machine code is where [defaults] has it.
func built(t *testing.T, folders ...string) string {
	t.Helper()
	plugintest.MachineCode(t, folders...)
	return plugintest.Build(t, folders...)
}

// defaults is the configuration of an operator who chose only folders and addresses.
func defaults(t *testing.T, plugins string) *config.Config {
	t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	loader := config.Flags(flags, config.Always|config.Deciding|config.Serving)
	data := filepath.Join(t.TempDir(), "data")
	if err := errors.Join(os.MkdirAll(data, 0o700), os.Symlink(plugintest.MachineCode(t), filepath.Join(data, "wasm-cache"))); err != nil {
		t.Fatal(err)
	}
	args := []string{"--listen", "127.0.0.1:0", "--data", data, "--plugins", plugins, "--admin-socket", "off"}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	cfg, err := loader.Load(func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serving is a log that takes out where the daemon says that it serves.
type serving chan string

func (s serving) Write(line []byte) (int, error) {
	var m struct{ Msg, Addr string }
	if json.Unmarshal(line, &m) == nil && m.Msg == "serving" {
		s <- strings.TrimPrefix(m.Addr, "ws://")
	}
	return len(line), nil
}

// serve runs what talon serve runs, with ticks that come often, and returns where.
func serve(t *testing.T, plugins string) string {
	t.Helper()
	return serveConfig(t, defaults(t, plugins))
}

func serveConfig(t *testing.T, cfg *config.Config) string {
	t.Helper()
	at := make(serving, 1)
	d := New(cfg, "test", slog.New(slog.NewJSONHandler(at, nil)))
	d.every = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case addr := <-at:
		return addr
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	case <-time.After(time.Until(testkit.Deadline(t))):
		t.Fatal("it does not serve")
	}
	return ""
}

// scraped returns a metric from /metrics.
func scraped(t *testing.T, addr, name string) string {
	t.Helper()
	answer, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return value
		}
	}
	t.Fatalf("no metric %s", name)
	return ""
}

func clientLimit(t *testing.T, addr, of string) string {
	t.Helper()
	return scraped(t, addr, fmt.Sprintf("talon_client_limit{limit=%q}", of))
}

// client is a nostr client that sends the given messages.
type client struct {
	t   *testing.T
	net net.Conn
	in  io.Reader

	challenge string // of NIP-42, once it has come
	events    int    // that have come
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn, early, _, err := ws.Dial(context.Background(), "ws://"+addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &client{t: t, net: conn, in: conn}
	if early != nil {
		c.in = io.MultiReader(io.LimitReader(early, int64(early.Buffered())), conn)
	}
	return c
}

// ask sends a message, and returns the next one of the type.
func (c *client) ask(message, kind string) []any {
	c.t.Helper()
	if err := wsutil.WriteClientText(c.net, []byte(message)); err != nil {
		c.t.Fatal(err)
	}
	_ = c.net.SetReadDeadline(testkit.Deadline(c.t))
	for {
		text, err := wsutil.ReadServerText(struct {
			io.Reader
			io.Writer
		}{c.in, c.net})
		if err != nil {
			c.t.Fatal(err)
		}
		var answer []any
		if err := json.Unmarshal(text, &answer); err != nil {
			c.t.Fatalf("%s: %v", text, err)
		}
		switch answer[0] {
		case "AUTH":
			c.challenge = answer[1].(string)
		case "EVENT":
			c.events++
		}
		if answer[0] == "CLOSED" && kind != "CLOSED" {
			c.t.Fatalf("%.100s: %s", message, text)
		}
		if answer[0] == kind {
			return answer
		}
	}
}

// publish returns why an event of its own was refused, "" if it was not.
func (c *client) publish(n int) string {
	c.t.Helper()
	e := testkit.NewSigner(1).Event(1, time.Now().Unix(), fmt.Sprint(n))
	answer := c.ask(`["EVENT",`+string(e.JSON)+`]`, "OK")
	if answer[2] == true {
		return ""
	}
	return answer[3].(string)
}

// A module that limits events has each client hear it, and touches nothing else; when
// it is switched off, so are its limits.
func TestServeLimitsEvents(t *testing.T) {
	plugins := built(t, "plugins/open", "examples/hello-throttle")
	write(t, plugins, "open.toml", "[config]\nevery = true\n")
	write(t, plugins, "hello-throttle.toml", "[config]\nevents = 12\n") // under load fewer, down to 10
	addr := serve(t, plugins)
	testkit.Eventually(t, "a limit for events", func() bool { return clientLimit(t, addr, "events") != "0" })

	first := dial(t, addr)
	n := 0
	refused := ""
	for ; refused == ""; n++ { // if the machine pauses for a minute, there are more
		refused = first.publish(n)
	}
	if stored := n - 1; !strings.HasPrefix(refused, "rate-limited: ") || stored < 10 {
		t.Errorf("%d events were stored, then %q", stored, refused)
	}
	if got := first.ask(`["COUNT","c",{"kinds":[1]}]`, "COUNT"); got[2].(map[string]any)["count"] != float64(n-1) {
		t.Errorf("got %v", got)
	}
	for i := range 20 {
		id := fmt.Sprint("s", i)
		if got := first.ask(fmt.Sprintf(`["REQ",%q,{"limit":0},{"limit":0,"kinds":[%d]}]`, id, i), "EOSE"); got[1] != id {
			t.Errorf("got %v", got)
		}
	}
	if refused := dial(t, addr).publish(100); refused != "" {
		t.Errorf("another client's event: %s", refused)
	}
	for name, want := range map[string]string{
		"connections": "100", "subscriptions": "64", "filters": "100", "queries": "0", "bytes-in": "0", "bytes-out": "0",
	} {
		if got := clientLimit(t, addr, name); got != want {
			t.Errorf("the limit of %s is %s, want %s", name, got, want)
		}
	}
	if got := scraped(t, addr, `talon_relay_limited_total{limit="events"}`); got != "1" {
		t.Errorf("%s events were refused", got)
	}

	write(t, plugins, "hello-throttle.toml", "mode = \"off\"\n")
	testkit.Eventually(t, "no limit for events", func() bool { return clientLimit(t, addr, "events") == "0" })
	if refused := first.publish(101); refused != "" {
		t.Errorf("without the module: %s", refused)
	}
}
