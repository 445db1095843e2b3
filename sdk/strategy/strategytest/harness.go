// Package strategytest runs a strategy natively for go test, as a story of inputs and actions:
//
//	func TestConnects(t *testing.T) {
//		h := strategytest.New(t, manifest, new(plan), nil)
//		h.Want(&abi.RelayConnected{Relay: "wss://r"},
//			`subscribe wss://r announcements {kinds 30617 30618}`)
//		h.WantAfter(5*strategy.Second, `disconnect wss://r: nothing left`)
//	}
//
// The configuration is checked against the manifest, inputs and actions are
// encoded, read in place and decoded within limits, as a host does it.
package strategytest

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
	"talon/sdk/strategy"
)

// Start is the time of a harness when it is made, in unix milliseconds.
const Start int64 = 1_700_000_000_000

// Limits are the limits of a host, unless a test sets others.
var Limits = abi.StepLimits{
	Connections: 100, Subscriptions: 70, Filters: 10, Values: 200, Historics: 10, Timers: 1000, Actions: 1000,
	Bytes: 256 << 10,
}

// Harness runs one configured strategy. Change its fields between steps.
type Harness struct {
	Now    int64    // unix milliseconds
	Logged []string // lines that the strategy has logged

	t        testing.TB
	step     Step
	manifest *manifest.Manifest
	limits   abi.StepLimits
	timers   map[string]int64
}

// Step answers an encoded StepRequest with encoded StepActions, which are valid until
// the next call.
type Step func(request []byte) ([]byte, error)

// New configures s with values, as an operator writes them, and ends the test if
// that fails.
func New(t testing.TB, manifestText string, s strategy.Strategy, values map[string]any) *Harness {
	t.Helper()
	h, err := Configure(t, manifestText, s, values)
	if err != nil {
		t.Fatalf("configure: %v", err)
	}
	return h
}

// Configure is like New, but returns the error.
func Configure(t testing.TB, manifestText string, s strategy.Strategy, values map[string]any) (*Harness, error) {
	t.Helper()
	m, err := manifest.Parse([]byte(manifestText))
	if err != nil {
		t.Fatal(err)
	}
	settings, err := m.Resolve(values)
	if err != nil {
		return nil, err
	}
	if err := strategy.Configure(s, settings); err != nil {
		return nil, err
	}
	h := newHarness(t, nil)
	h.manifest = m
	call := strategy.NewCall(host{h})
	h.step = func(request []byte) ([]byte, error) { return call.Step(s, request, nil) }
	return h, nil
}

func newHarness(t testing.TB, step Step) *Harness {
	return &Harness{Now: Start, t: t, step: step, limits: Limits, timers: make(map[string]int64)}
}

// Step gives the strategy an input and returns its actions. An init without limits gets [Limits].
func (h *Harness) Step(input abi.Input) []abi.StepAction {
	h.t.Helper()
	if init, ok := input.(*abi.StepInit); ok && init.Part == 0 {
		if init.Limits == (abi.StepLimits{}) {
			init.Limits = Limits
		}
		h.limits = init.Limits
		clear(h.timers)
	}
	b, err := h.step(abi.AppendStep(nil, h.Now, input))
	if err != nil {
		h.t.Fatalf("ask the strategy: %v", err)
	}
	if limit := h.limits.Bytes; limit > 0 && len(b) > int(limit) {
		h.t.Fatalf("the answer has %d bytes; the limit is %d", len(b), limit)
	}
	actions, err := abi.DecodeActions(b, abi.ActionLimits{
		Actions: int(h.limits.Actions), Filters: int(h.limits.Filters), Values: int(h.limits.Values), AllValues: 1 << 20,
	})
	if err != nil {
		h.t.Fatalf("a host refuses the answer: %v", err)
	}
	for _, a := range actions {
		switch {
		case a.Do != abi.DoSetTimer:
		case a.At == 0:
			delete(h.timers, a.ID)
		default:
			h.timers[a.ID] = a.At
		}
	}
	if len(h.timers) > int(h.limits.Timers) {
		h.t.Fatalf("%d timers are set; the limit is %d", len(h.timers), h.limits.Timers)
	}
	return actions
}

// Want fails the test unless the strategy answers input with these actions, in
// this order, each as [Line] writes it.
func (h *Harness) Want(input abi.Input, lines ...string) {
	h.t.Helper()
	h.compare(h.Step(input), lines)
}

// Pass lets time pass, fires the timers that are due, in order, and returns the actions.
func (h *Harness) Pass(millis int64) []abi.StepAction {
	h.t.Helper()
	var all []abi.StepAction
	h.pass(millis, 10_000, fmt.Sprintf("10,000 timers in %d milliseconds", millis), func(_ int64, actions []abi.StepAction) {
		all = append(all, actions...)
	})
	return all
}

// pass lets time pass. When a timer fires, it calls then with the actions and with the time before.
// More timers than limit end the test.
func (h *Harness) pass(millis int64, limit int, tooMany string, then func(before int64, actions []abi.StepAction)) {
	h.t.Helper()
	end := h.Now + millis
	for fired := 0; ; fired++ {
		id, at, due := h.next(end)
		if !due {
			break
		}
		if fired > limit {
			h.t.Fatal(tooMany)
		}
		delete(h.timers, id)
		before := h.Now
		h.Now = max(before, at)
		then(before, h.Step(&abi.TimerFired{ID: id, At: at}))
	}
	h.Now = end
}

// next returns the timer that is due first, until end.
func (h *Harness) next(end int64) (id string, at int64, due bool) {
	for i, t := range h.timers {
		if t <= end && (!due || t < at || t == at && i < id) {
			id, at, due = i, t, true
		}
	}
	return id, at, due
}

// WantAfter is like Want, for the actions while time passes.
func (h *Harness) WantAfter(millis int64, lines ...string) {
	h.t.Helper()
	h.compare(h.Pass(millis), lines)
}

func (h *Harness) compare(actions []abi.StepAction, want []string) {
	h.t.Helper()
	got := make([]string, len(actions))
	for i := range actions {
		got[i] = Line(&actions[i])
	}
	if !slices.Equal(got, want) {
		h.t.Errorf("the strategy says\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// host answers host functions from the fields of a Harness.
type host struct{ h *Harness }

func (f host) Log(_ strategy.Level, text string) {
	if !slices.Contains(f.h.manifest.Capabilities, abi.CapLog) {
		f.h.t.Fatalf("the strategy logs, but its manifest does not ask for the capability %q", abi.CapLog)
	}
	f.h.Logged = append(f.h.Logged, text)
}

// Line writes an action as one line:
//
//	connect wss://r priority 2: named by 30617:ab:x
//	disconnect wss://r: nothing left
//	subscribe wss://r notes live {kinds 1 7; #e ab cd; since 5; limit 10} {…}
//	unsubscribe wss://r notes
//	historic wss://r notes negentropy startup page 500 push holdings {…}
//	timer batch 1700000005000
//	timer batch off
//	uncovered wss://r repositories 1 roots 300
//	progress wss://r past closed old-dates restart next 1700000005000
func Line(a *abi.StepAction) string { return style{}.line(a) }

// style says how actions are written.
type style struct {
	story bool  // times since start, and what repeats once
	start int64 // unix milliseconds
}

func (s style) line(a *abi.StepAction) string {
	var b strings.Builder
	word := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	switch a.Do {
	case abi.DoConnect:
		word("connect %s", a.Relay)
		if a.Priority != 0 {
			word(" priority %d", a.Priority)
		}
	case abi.DoDisconnect:
		word("disconnect %s", a.Relay)
	case abi.DoSubscribe:
		word("subscribe %s %s", a.Relay, a.ID)
		if a.Live {
			word(" live")
		}
	case abi.DoUnsubscribe:
		word("unsubscribe %s %s", a.Relay, a.ID)
	case abi.DoHistoric:
		word("historic %s %s %s", a.Relay, a.ID, [...]string{"auto", "negentropy", "req"}[a.Method])
	case abi.DoSetTimer:
		if a.At == 0 {
			return "timer " + a.ID + " off"
		}
		word("timer %s %d", a.ID, a.At)
	case abi.DoUncovered:
		word("uncovered %s repositories %d roots %d", a.Relay, a.Repositories, a.Roots)
	case abi.DoProgress:
		word("progress %s%s", a.Relay, s.progress(a))
	}
	if a.Purpose != abi.PurposeLive {
		word(" %s", [...]string{"", "startup", "reconnect", "daily"}[a.Purpose])
	}
	if a.Page != 0 {
		word(" page %d", a.Page)
	}
	if a.Push {
		word(" push")
	}
	if a.Holdings {
		word(" holdings")
	}
	if a.Reason != "" {
		word(": %s", a.Reason)
	}
	for i := 0; i < len(a.Filters); i++ {
		names := ""
		for s.story && i+1 < len(a.Filters) && sameButTagName(&a.Filters[i], &a.Filters[i+1]) {
			names += "#" + a.Filters[i].Tags[0].Name + " "
			i++
		}
		word(" {%s%s}", names, s.filter(&a.Filters[i]))
	}
	return b.String()
}

// progress writes a Progress of a relay.
func (s style) progress(a *abi.StepAction) string {
	text := ""
	for _, flag := range []struct {
		set  bool
		name string
	}{{a.Past, "past"}, {a.Closed, "closed"}, {a.OldDates, "old-dates"}, {a.Anew, "restart"}} {
		if flag.set {
			text += " " + flag.name
		}
	}
	switch {
	case a.NextCheck == 0:
	case s.story:
		text += " next " + elapsed(a.NextCheck-s.start)
	default:
		text += fmt.Sprintf(" next %d", a.NextCheck)
	}
	return text
}

// sameButTagName reports whether filters differ in the name of their only tag, and in
// nothing else.
func sameButTagName(f, g *abi.Filter) bool {
	if len(f.Tags) != 1 || len(g.Tags) != 1 {
		return false
	}
	named := *g
	named.Tags = []abi.TagFilter{{Name: f.Tags[0].Name, Values: g.Tags[0].Values}}
	return reflect.DeepEqual(*f, named)
}

func (s style) filter(f *abi.Filter) string {
	var parts []string
	add := func(name string, values []string) {
		if s.story {
			values = runs(values)
		}
		if len(values) > 0 {
			parts = append(parts, name+" "+strings.Join(values, " "))
		}
	}
	add("ids", hexes(f.IDs))
	add("authors", hexes(f.Authors))
	var kinds []string
	for _, k := range f.Kinds {
		kinds = append(kinds, fmt.Sprint(k))
	}
	add("kinds", kinds)
	for _, t := range f.Tags {
		add("#"+t.Name, t.Values)
	}
	point := func(name string, at *int64) {
		switch {
		case at == nil:
		case s.story:
			parts = append(parts, name+" "+elapsed(*at*1000-s.start))
		default:
			parts = append(parts, fmt.Sprintf("%s %d", name, *at))
		}
	}
	point("since", f.Since)
	point("until", f.Until)
	if f.Limit != 0 {
		parts = append(parts, fmt.Sprintf("limit %d", f.Limit))
	}
	return strings.Join(parts, "; ")
}

func hexes(ids [][32]byte) []string {
	var list []string
	for _, id := range ids {
		list = append(list, hex.EncodeToString(id[:]))
	}
	return list
}

// elapsed writes a length of time: 90s is 1m30s, and 24h is 1d.
func elapsed(millis int64) string {
	sign := ""
	if millis < 0 {
		sign, millis = "-", -millis
	}
	text := ""
	for _, unit := range []struct {
		name   string
		millis int64
	}{{"d", strategy.Day}, {"h", strategy.Hour}, {"m", strategy.Minute}, {"s", strategy.Second}, {"ms", 1}} {
		if n := millis / unit.millis; n > 0 {
			text += fmt.Sprint(n) + unit.name
		}
		millis %= unit.millis
	}
	if text == "" {
		return "0s"
	}
	return sign + text
}

// runs shortens ids to four digits, and values that count up to the first and the
// last of them.
func runs(values []string) []string {
	var out []string
	for i := 0; i < len(values); {
		end := i
		for end+1 < len(values) && next(short(values[end])) == short(values[end+1]) {
			end++
		}
		if end-i < 2 {
			out = append(out, short(values[i]))
			i++
			continue
		}
		out = append(out, short(values[i])+".."+digits(short(values[end])))
		i = end + 1
	}
	return out
}

var zeros = strings.Repeat("0", 60)

func short(value string) string {
	if len(value) == 64 && strings.HasSuffix(value, zeros) {
		return value[:4]
	}
	return value
}

// digits are those at the end of a value.
func digits(value string) string {
	return value[len(strings.TrimRight(value, "0123456789")):]
}

// next is the value that counts one up, "" if there is none of the same length.
func next(value string) string {
	number := digits(value)
	n, err := strconv.Atoi(number)
	if err != nil {
		return ""
	}
	up := fmt.Sprintf("%0*d", len(number), n+1)
	if len(up) != len(number) {
		return ""
	}
	return value[:len(value)-len(number)] + up
}
