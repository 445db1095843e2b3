package relaysync

import (
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"talon/host"
	"talon/internal/testkit"

	"talon/sdk/abi"
)

// journal keeps a log.
type journal struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) has(line *regexp.Regexp) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return line.MatchString(j.text.String())
}

// TestLogLevels checks that each event is logged at the level of the documents, with the details
// that an operator needs. The level rises with the number of events that live sync missed.
func TestLogLevels(t *testing.T) {
	log := new(journal)
	r := newRemote(t, nil)
	down := newRemote(t, nil)
	down.refuse(true)
	gone := newRemote(t, func(r *remote) { r.handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) })
	repo := announce(t, alice, "demo", epoch, r.url)
	address, _ := repo.Address()
	issue := func(content string) host.Tag { return host.Tag{"a", address.String(), "", content} }
	about := func(values ...string) abi.Filter {
		return abi.Filter{Tags: []abi.TagFilter{{Name: "a", Values: values}}}
	}
	late, daily := fetch(r.url, "late", abi.MethodAuto, kinds(1)), fetch(r.url, "daily", abi.MethodREQ, kinds(2))
	poll := fetch(r.url, "poll", abi.MethodREQ, kinds(3))
	late.Purpose, daily.Purpose, poll.Purpose = abi.PurposeReconnect, abi.PurposeDaily, abi.PurposeLive
	r.add(notes(t, 3)...)
	r.add(signed(t, bob, 2, epoch, "one"), signed(t, bob, 2, epoch, "two"))
	w := start(t, nil, func(cfg *Config, _ *Deps) {
		cfg.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	w.put(signed(t, bob, 1621, epoch, "here", issue("1")), signed(t, bob, 1621, epoch, "too", issue("2")))
	w.plan.swap(func(v *abi.StepView) []abi.StepAction {
		switch v.Kind {
		case abi.InputInit:
			return []abi.StepAction{connectTo(r.url), connectTo(down.url), connectTo(gone.url)}
		case abi.InputRelayConnected:
			return []abi.StepAction{
				live(r.url, "live", kinds(7)), late, daily, poll,
				fetch(r.url, "one", abi.MethodNegentropy, about(address.String())),
				fetch(r.url, "two", abi.MethodNegentropy, about(address.String(), "30617:"+address.PubKey.String()+":other")),
				fetch(r.url, "root", abi.MethodNegentropy, kinds(1621)),
			}
		}
		return nil
	})
	w.plan.wait(t, 1, "eose live")
	r.add(signed(t, bob, 7, epoch, "now"))
	id := "event=[0-9a-f]{64}"
	for _, want := range []string{
		`level=INFO msg="connected to a relay" relay=` + r.url,
		`level=DEBUG msg="event from a relay" ` + id + ` kind=7 relay=` + r.url + ` source=live verdict=`,
		`level=WARN msg="sync gap: events found by catching up" relay=` + r.url + ` count=3 ` + id,
		`level=WARN msg="sustained sync gap: events found by the daily sync" relay=` + r.url + ` count=2 ` + id,
		`level=WARN msg="could not connect to a relay" relay=` + down.url + ` attempt=1 again_in=50ms err=`,
		`level=WARN msg="a relay is dead" relay=` + gone.url + ` failures=1 failing_for=0s again_in=12h0m0s`,
		`level=DEBUG msg="what is new is fetched from a relay, there is no subscription for it" relay=` + r.url + ` subscriptions=1`,
		`level=WARN msg="the relay lacks events that are here" relay=` + r.url + ` count=2 ` + id,
	} {
		line := regexp.MustCompile(`(?m)^time=\S+ ` + want)
		testkit.Eventually(t, want, func() bool { return log.has(line) })
	}
}

// A bootstrap relay is the operator's choice: that it is dead needs a person.
func TestDeadBootstrap(t *testing.T) {
	log := new(journal)
	gone := newRemote(t, func(r *remote) { r.handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) })
	start(t, nil, func(cfg *Config, _ *Deps) {
		cfg.Bootstrap = []string{gone.url}
		cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	line := regexp.MustCompile(`level=ERROR msg="a relay is dead" relay=` + gone.url)
	testkit.Eventually(t, line.String(), func() bool { return log.has(line) })
}
